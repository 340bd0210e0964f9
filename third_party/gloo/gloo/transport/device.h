// Declared and no more (see ../../BUILD.bazel).
#pragma once

namespace gloo::transport {

class Device;

}  // namespace gloo::transport
