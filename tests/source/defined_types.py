"""Types that are defined twice under one name: in one program the linker would take either."""

import collections
import re

_NAMESPACE = re.compile(r"^namespace( [\w:]+)? \{$")
_END = re.compile(r"^\}  // namespace")
# Neither a member of another type nor a specialisation.
_TYPE = re.compile(r"^(?:struct|class|enum class|union)(?: alignas\(.*\))? (\w+)(?: final)?(?: : .*)? ?\{")


def defined(text):
    """The types that a source defines for others, with the namespaces that they lie in."""
    inside = []
    for line in text.splitlines():
        if match := _NAMESPACE.match(line):
            inside.append((match[1] or "").strip())
        elif _END.match(line):
            inside.pop()
        # In a namespace without a name a type is the file's own.
        elif (match := _TYPE.match(line)) and "" not in inside:
            yield "::".join([*inside, match[1]])


def twice(sources):
    """What is wrong in a dict from path to text."""
    places = collections.defaultdict(list)
    for path, text in sorted(sources.items()):
        for name in defined(text):
            places[name].append(path)
    return [f"{name} is defined in {' and in '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]
