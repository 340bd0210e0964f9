// Shows one plan record (docs/record.md), beside an earlier one where there is one. Every text of a
// record is set as text, never as HTML.
const record = JSON.parse(document.getElementById('record').textContent);
const before = JSON.parse(document.getElementById('before').textContent);
const PHASES = ['forward', 'backward', 'update', 'executor'];
const MOST_ITEMS = 400, MOST_ROWS = 300, ITEM_HEIGHT = 26;

function micros(us) {
  if (us >= 1e4) return (us / 1e3).toFixed(1) + ' ms';
  return us.toFixed(us < 10 ? 2 : 1) + ' us';
}
// Of a captured step that a device recorded; of records from before there were such, nothing.
function gaps(times) {
  if (!times.idle_microseconds && !times.overlap_microseconds) return '';
  return '; in none for ' + micros(times.idle_microseconds) + ' between the first and the last, overlapping for ' + micros(times.overlap_microseconds);
}
// Of a plan among several: its mode, and the shape or average that it has.
const nameOf = (plan) => plan.mode + (plan.average ? ' with "' + plan.average + '"' : '') + (plan.batch ? ', ' + plan.batch : '');

function table(head, rows) {
  const element = make('table');
  const line = element.createTHead().insertRow();
  for (const name of head) line.append(make('th', name.replace(/^#/, ''), {className: name[0] === '#' ? 'number' : ''}));
  const body = element.createTBody();
  for (const row of rows) {
    const tr = body.insertRow();
    row.forEach((cell, i) => {
      const td = tr.insertCell();
      if (head[i][0] === '#') td.className = 'number';
      if (cell instanceof Node) td.append(cell); else td.textContent = cell;
    });
  }
  return element;
}
const none = (text) => make('p', text, {className: 'hint'});

// ---- one plan ---------------------------------------------------------------------------------

let number = 0, plan, totals, order, kernelAt, readers, scope = [], hidden = new Set(), chosen = null, values = [];

function choosePlan(i) {
  number = i;
  plan = record.plans[i];
  totals = record.report.plans[i];
  order = [];
  plan.nodes.forEach((node, k) => { order[node.place] = k; });
  kernelAt = [0];
  for (const k of order) kernelAt.push(kernelAt.at(-1) + (plan.nodes[k].kernel ? 1 : 0));
  readers = plan.nodes.map(() => []);
  plan.nodes.forEach((node, k) => node.inputs.forEach(([from]) => readers[from].push(k)));
  scope = [];
  chosen = null;
  at('plans').replaceChildren(...record.report.plans.map((each, k) => {
    const button = make('button', nameOf(each));
    button.setAttribute('aria-pressed', k === i);
    button.onclick = () => choosePlan(k);
    return button;
  }));
  const facts = [['kernels', totals.kernels], ['before passes', totals.kernels_declared], ['nodes', plan.nodes.length],
    ['arena', bytes(totals.arena_bytes)], ['its lower bound', bytes(totals.lower_bound)], ['never shared', bytes(totals.unshared_bytes)],
    ['copies of results', totals.copies], ['parameters', record.report.parameter_count.toLocaleString('en')]];
  if (record.times.step_microseconds > 0 && isTimed()) facts.push(['a step', micros(record.times.step_microseconds)]);
  at('totals').replaceChildren(...facts.map(([name, fact]) => {
    const box = make('div');
    box.append(make('dt', name), make('dd', fact));
    return box;
  }));
  showBeside();
  showMemory();
  showGraph();
  showTime();
  showPasses();
  showRecomputed();
  showChoices();
  showTable();
}

// ---- beside an earlier record -----------------------------------------------------------------

// Nodes under the key that each has in both records, and how many have it.
function countBy(nodes, key) {
  const all = new Map();
  for (const node of nodes) all.set(key(node), (all.get(key(node)) || 0) + 1);
  return all;
}

function sumBy(rows, key, number) {
  const all = new Map();
  for (const row of rows) all.set(key(row), (all.get(key(row)) || 0) + number(row));
  return all;
}

const signed = (n, text) => n === 0 ? '' : (n > 0 ? '+' : '\u2212') + text(Math.abs(n));

function showBeside() {
  if (!before) return;
  at('beside').hidden = false;
  at('beside-title').textContent = 'Beside ' + before.report.graph + ' on ' + before.report.target;
  const was = before.report.plans.findIndex((each) => nameOf(each) === nameOf(totals));
  if (was < 0) {
    at('beside-about').textContent = 'The earlier record has no plan "' + nameOf(totals) + '".';
    for (const id of ['totals', 'ops', 'count', 'nodes']) at('beside-' + id).replaceChildren();
    return;
  }
  const old = before.report.plans[was], oldPlan = before.plans[was];
  const timed = isTimed() && record.times.steps > 0 && before.times.steps > 0;
  at('beside-about').textContent = timed ? 'Times are of two runs: they differ by noise, too.' : 'Times are shown where both records have them.';
  const count = (n) => n.toLocaleString('en');
  const rows = [['kernels', old.kernels, totals.kernels, count], ['nodes', oldPlan.nodes.length, plan.nodes.length, count],
    ['arena', old.arena_bytes, totals.arena_bytes, bytes], ['its lower bound', old.lower_bound, totals.lower_bound, bytes],
    ['never shared', old.unshared_bytes, totals.unshared_bytes, bytes], ['copies of results', old.copies, totals.copies, count],
    ['parameters', before.report.parameter_count, record.report.parameter_count, count]];
  if (timed && before.times.step_microseconds > 0 && record.times.step_microseconds > 0) rows.push(['a step', before.times.step_microseconds, record.times.step_microseconds, micros]);
  at('beside-totals').replaceChildren(table(['', '#before', '#now', '#difference'],
    rows.map(([name, a, b, text]) => [name, text(a), text(b), signed(b - a, text)])));
  const held = (node) => node.values.reduce((sum, value) => sum + (value.is_view ? 0 : value.bytes), 0);
  const op = (node) => node.op, zero = new Map();
  const [oldCounts, counts] = [oldPlan, plan].map((each) => countBy(each.nodes, op));
  const [oldBytes, newBytes] = [oldPlan, plan].map((each) => sumBy(each.nodes, op, held));
  const [oldTimes, times] = [before, record].map((each) => timed ? sumBy(each.times.kernels, op, (kernel) => kernel.microseconds) : zero);
  const of = (map, name) => map.get(name) || 0;
  const differing = [...new Set([...oldCounts.keys(), ...counts.keys()])].filter((name) =>
    of(oldTimes, name) !== of(times, name) || of(oldCounts, name) !== of(counts, name) || of(oldBytes, name) !== of(newBytes, name));
  const change = (name) => timed ? of(times, name) - of(oldTimes, name) : of(newBytes, name) - of(oldBytes, name);
  differing.sort((a, b) => Math.abs(change(b)) - Math.abs(change(a)) || (a < b ? -1 : 1));
  const pair = (name, was, now, text) => [text(of(was, name)), text(of(now, name)), signed(of(now, name) - of(was, name), text)];
  at('beside-ops').replaceChildren(differing.length === 0 ? none('None: number and bytes of each op are equal.') :
    table(['op', '#nodes before', '#now', '#difference', '#bytes of results before', '#now', '#difference', ...(timed ? ['#us before', '#now', '#difference'] : [])],
      differing.map((name) => [name, ...pair(name, oldCounts, counts, count), ...pair(name, oldBytes, newBytes, bytes),
        ...(timed ? pair(name, oldTimes, times, micros) : [])])));
  // A node is known by its op, path and results.
  const known = (node) => [node.op, node.path, node.values.map((value) => value.type).join(', ')].join('\n');
  const oldNodes = countBy(oldPlan.nodes, known), newNodes = countBy(plan.nodes, known);
  const listed = [[oldNodes, newNodes, 'went'], [newNodes, oldNodes, 'came']].flatMap(([here, there, how]) =>
    [...here].filter(([key, n]) => n > of(there, key)).map(([key, n]) => [how, ...key.split('\n'), n - of(there, key)]));
  const number = (how) => listed.reduce((sum, row) => sum + (row[0] === how ? row[4] : 0), 0);
  at('beside-count').textContent = number('came') + ' nodes came, ' + number('went') + ' went' +
    (listed.length > MOST_ROWS ? '; the first ' + MOST_ROWS + ' kinds are shown' : '') + '.';
  at('beside-nodes').replaceChildren(...(listed.length === 0 ? [] : [table(['', 'op', 'path', 'results', '#nodes'], listed.slice(0, MOST_ROWS))]));
}

// ---- memory -----------------------------------------------------------------------------------

let rectangles = [];

function showMemory() {
  values = [];
  plan.nodes.forEach((node, k) => node.values.forEach((value, output) => {
    if (value.begin >= 0 && value.bytes > 0) values.push({node, k, output, value});
  }));
  values.sort((a, b) => a.value.begin - b.value.begin || a.value.offset - b.value.offset);
  at('legend').replaceChildren(...PHASES.slice(0, 3).flatMap((phase) => {
    const key = make('span', '', {className: 'key'});
    key.style.background = color(phase);
    return [key, make('span', phase)];
  }), make('span', ' \u00a0 \u00a6 the fullest moment, kernel ' + kernelAt[Math.max(plan.peak, 0)] + ' of ' + totals.kernels + '; - - the lower bound'));
  drawMemory();
  at('value').textContent = values.length + ' values in the arena.';
}

function drawMemory() {
  const canvas = at('memory'), scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const c = canvas.getContext('2d');
  c.scale(scale, scale);
  c.clearRect(0, 0, width, height);
  const whole = Math.max(totals.arena_bytes, 1), steps = Math.max(totals.kernels, 1);
  // Inputs, storages and views are in the order, too, but take no time.
  const x = (place) => kernelAt[place] / steps * width, y = (offset) => height - offset / whole * height;
  rectangles = values.map((v) => ({v, left: x(v.value.begin), right: Math.max(x(v.value.end + 1), x(v.value.begin) + 1),
    top: y(v.value.offset + v.value.bytes), bottom: y(v.value.offset)}));
  for (const r of rectangles) {
    c.globalAlpha = 0.75;
    c.fillStyle = color(r.v.node.phase);
    c.fillRect(r.left, r.top, r.right - r.left, r.bottom - r.top);
    if (r.bottom - r.top > 3 && r.right - r.left > 3) {
      c.globalAlpha = 1;
      c.strokeStyle = color('back');
      c.lineWidth = 0.7;
      c.strokeRect(r.left, r.top, r.right - r.left, r.bottom - r.top);
    }
  }
  c.globalAlpha = 1;
  c.strokeStyle = color('mark');
  c.lineWidth = 1;
  c.setLineDash([4, 3]);
  c.beginPath();
  const peak = x(Math.max(plan.peak, 0)) + width / steps / 2;
  c.moveTo(peak, 0);
  c.lineTo(peak, height);
  c.moveTo(0, y(totals.lower_bound) + 0.5);
  c.lineTo(width, y(totals.lower_bound) + 0.5);
  c.stroke();
  c.setLineDash([]);
  const marked = rectangles.find((r) => r.v === chosen);
  if (marked) {
    c.lineWidth = 2;
    c.strokeRect(marked.left, marked.top, Math.max(2, marked.right - marked.left), Math.max(2, marked.bottom - marked.top));
  }
}

function describeValue(v) {
  const {node, value} = v;
  const named = readers[v.k].map((k) => plan.nodes[k].op + ' "' + plan.nodes[k].path + '"');
  return value.type + ', ' + bytes(value.bytes) + ', made by ' + node.op + ' "' + node.path + '"' + (node.line ? ' (' + node.line + ')' : '') +
    '; held from kernel ' + kernelAt[value.begin] + ' to ' + kernelAt[value.end] + ', ' + bytes(value.offset) + ' into the arena; read by ' +
    (named.length ? named.slice(0, 6).join(', ') + (named.length > 6 ? ' and ' + (named.length - 6) + ' more' : '') : 'no kernel');
}

function chooseValue(v) {
  if (v === chosen) return;
  chosen = v;
  if (v) at('value').textContent = describeValue(v);
  drawMemory();
}

at('memory').addEventListener('mousemove', (event) => {
  const box = at('memory').getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  for (let i = rectangles.length - 1; i >= 0; --i) {
    const r = rectangles[i];
    if (px >= r.left && px <= r.right && py >= r.top - 1 && py <= r.bottom + 1) return chooseValue(r.v);
  }
});
at('memory').addEventListener('keydown', (event) => {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (!step || values.length === 0) return;
  event.preventDefault();
  const now = values.indexOf(chosen);
  chooseValue(values[now < 0 ? 0 : (now + step + values.length) % values.length]);
});
window.addEventListener('resize', () => { drawMemory(); drawEdges(); });

// ---- graph ------------------------------------------------------------------------------------

// A scope's items: nodes that lie in it, and the scopes in it, each where its first node runs.
let items = [], itemOf = new Map();

function partsOf(path) { return path === '' ? ['(no path)'] : path.split('/'); }

function showGraph() {
  items = [];
  itemOf = new Map();
  const scopes = new Map();
  for (const k of order) {
    const node = plan.nodes[k], parts = partsOf(node.path);
    if (hidden.has(node.phase) || !scope.every((part, i) => parts[i] === part)) continue;
    let item;
    if (parts.length > scope.length + 1) {
      const name = parts[scope.length];
      item = scopes.get(name);
      if (!item) {
        item = {name, nodes: [], kernels: 0, bytes: 0, phases: new Set()};
        scopes.set(name, item);
        items.push(item);
      }
    } else {
      item = {node, k, nodes: [], kernels: 0, bytes: 0, phases: new Set()};
      items.push(item);
    }
    item.nodes.push(k);
    item.kernels += node.kernel ? 1 : 0;
    item.phases.add(node.phase);
    for (const value of node.values) item.bytes += value.begin >= 0 ? value.bytes : 0;
    itemOf.set(k, item);
  }
  const crumbs = [[], ...scope.map((_, i) => scope.slice(0, i + 1))].map((path, i) => {
    const button = make('button', i === 0 ? record.report.graph : path[i - 1], {className: 'link'});
    button.onclick = () => { scope = path; showGraph(); };
    return button;
  });
  at('crumbs').replaceChildren(...crumbs.flatMap((crumb, i) => i === 0 ? [crumb] : [make('span', ' / '), crumb]));
  at('phases').replaceChildren(...PHASES.filter((phase) => plan.nodes.some((node) => node.phase === phase)).map((phase) => {
    const button = make('button', phase);
    button.setAttribute('aria-pressed', !hidden.has(phase));
    button.onclick = () => { hidden.has(phase) ? hidden.delete(phase) : hidden.add(phase); showGraph(); };
    return button;
  }));
  const shown = items.slice(0, MOST_ITEMS);
  const list = make('div');
  shown.forEach((item, i) => {
    item.at = i;
    const row = make('div', null, {className: 'item'});
    row.style.borderLeftColor = color([...item.phases][0]);
    let label;
    if (item.node) {
      label = make('button', item.node.op + (partsOf(item.node.path).at(-1) === item.node.op ? '' : '  "' + partsOf(item.node.path).at(-1) + '"'),
        {className: 'link'});
      label.onclick = () => chooseNode(item);
    } else {
      label = make('button', '\u25b8 ' + item.name, {className: 'link'});
      label.onclick = () => { scope = [...scope, item.name]; showGraph(); };
    }
    const size = item.node ? item.node.values.map((value) => value.type).join(', ') : item.kernels + ' kernels, ' + bytes(item.bytes);
    row.append(label, make('span', size, {className: 'size'}));
    row.onmouseenter = () => drawEdges(item);
    list.append(row);
  });
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('height', shown.length * ITEM_HEIGHT);
  at('graph').replaceChildren(list, svg);
  at('node').textContent = items.length > MOST_ITEMS ? (items.length - MOST_ITEMS) + ' more items are not drawn; the table below has them.' :
    items.length + ' items.';
  drawEdges();
}

function drawEdges(marked) {
  const svg = at('graph').querySelector('svg');
  if (!svg) return;
  const width = svg.clientWidth, edges = new Map();
  for (const item of items) {
    for (const k of item.nodes) {
      for (const reader of readers[k]) {
        const to = itemOf.get(reader);
        if (!to || to === item || item.at === undefined || to.at === undefined) continue;
        edges.set(item.at + ' ' + to.at, [item, to]);
      }
    }
  }
  svg.replaceChildren(...[...edges.values()].map(([from, to]) => {
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    const y = (item) => item.at * ITEM_HEIGHT + ITEM_HEIGHT / 2, far = Math.min(width - 4, 12 + 9 * Math.sqrt(Math.abs(to.at - from.at)) * 2);
    path.setAttribute('d', 'M0 ' + (y(from) + 3) + ' C ' + far + ' ' + (y(from) + 3) + ', ' + far + ' ' + (y(to) - 3) + ', 0 ' + (y(to) - 3));
    if (marked && (from === marked || to === marked)) path.setAttribute('class', 'chosen');
    return path;
  }));
}

function chooseNode(item) {
  const {node, k} = item;
  const link = ([from, output]) => plan.nodes[from].values[output].type + ' of ' + plan.nodes[from].op + ' "' + plan.nodes[from].path + '"';
  at('node').textContent = node.op + (node.attributes ? ' {' + node.attributes + '}' : '') + ' "' + node.path + '"' + (node.line ? ' (' + node.line + ')' : '') +
    '; ' + (node.kernel ? 'kernel ' + node.kernel + ' on ' + node.threads + ' threads' : 'no kernel') + '; reads ' +
    (node.inputs.map(link).join(', ') || 'nothing') + '; read by ' +
    (readers[k].map((r) => plan.nodes[r].op + ' "' + plan.nodes[r].path + '"').slice(0, 8).join(', ') || 'no kernel') +
    (node.guard[0] >= 0 ? '; runs if ' + link(node.guard) : '');
  const value = values.find((v) => v.k === k);
  if (value) chooseValue(value);
  drawEdges(item);
}

// ---- time, passes, choices, nodes -------------------------------------------------------------

const isTimed = () => record.times.plan === number;

function bars(rows) {
  const most = Math.max(...rows.map((row) => row[1]), 1e-9);
  const element = table(['what', '#us a step', 'beside the longest'], rows.map(([name, us]) => {
    const bar = make('div', null, {className: 'bar'});
    bar.style.width = 100 * us / most + '%';
    return [name, us.toFixed(2), bar];
  }));
  element.classList.add('bars');
  return element;
}

function showTime() {
  const {kernels, steps, under_load: underLoad} = record.times;
  if (steps === 0) return at('time').replaceChildren(none('This record is of a plan alone. With --profile it also has times.'));
  if (!isTimed()) return at('time').replaceChildren(none('Another plan was timed, not this one.'));
  const sums = (key) => {
    const all = new Map();
    for (const kernel of kernels) all.set(key(kernel), (all.get(key(kernel)) || 0) + kernel.microseconds);
    return [...all].sort((a, b) => b[1] - a[1]).slice(0, 20);
  };
  const clean = (path) => partsOf(path)[0].replace(/\.grad$/, '');
  const step = record.times.step_microseconds, opOf = (kernel) => kernel.members ? 'group of ' + kernel.members : kernel.op;
  at('time').replaceChildren(make('p', (step > 0 ? micros(step) + ' a step. ' : '') + 'Each kernel: the median of its runs in ' + steps + ' steps, by ' +
    [...new Set(kernels.map((kernel) => kernel.by))].join(', ') + gaps(record.times) + (underLoad ? ', under load: other programs took more than a fifth of the cores' : '') + '.', {className: 'hint'}),
    make('h3', 'By scope'), bars(sums((kernel) => clean(kernel.path))), make('h3', 'By line'), bars(sums((kernel) => kernel.line || '(no line)')),
    make('h3', 'By op'), bars(sums(opOf)),
    make('h3', 'Longest kernels'), bars(sums((kernel) => kernel.kernel)));
}

function showPasses() {
  at('passes').replaceChildren(table(['pass', '#nodes before', '#after', 'what changed'], totals.passes.map((pass) =>
    [pass.name, pass.nodes_before, pass.nodes_after,
      pass.ops.map((op) => op.op + ' ' + (op.after > op.before ? '+' : '\u2212') + Math.abs(op.after - op.before)).join(', ') || 'nodes were replaced by others of their op'])));
}

function showRecomputed() {
  const all = totals.recomputed || [];
  at('recomputed-section').hidden = all.length === 0;
  const sum = all.reduce((us, each) => us + each.microseconds, 0);
  at('recomputed-about').textContent = all.length.toLocaleString('en') + (all.length === 1 ? ' kernel runs' : ' kernels run') +
    ' a second time in each step, which takes ' + micros(sum) + ' as compile timed or reckoned it.';
  at('recomputed').replaceChildren(table(['path', 'line', 'first result', '#bytes not kept', '#time'], all.slice(0, MOST_ROWS).map((each) =>
    [each.path, each.line, each.type, bytes(each.bytes), micros(each.microseconds)])));
}

function showChoices() {
  if (totals.choices.length === 0) return at('choices').replaceChildren(none('Each op has one kernel here.'));
  at('choices').replaceChildren(table(['op and shapes', 'chosen', 'how', 'all, with times where they were timed'], totals.choices.map((choice) =>
    [choice.what, choice.chosen, choice.how,
      choice.candidates.map((each) => each.name + (each.microseconds > 0 ? ' ' + micros(each.microseconds) : '')).join(', ')])));
}

function showTable() {
  const wanted = at('search').value.trim().toLowerCase();
  const texts = (node) => [node.op, node.path, node.line, ...node.values.map((value) => value.type)];
  const found = order.filter((k) => !wanted || texts(plan.nodes[k]).some((text) => text.toLowerCase().includes(wanted)));
  at('found').textContent = found.length + ' of ' + plan.nodes.length + ' nodes' +
    (found.length > MOST_ROWS ? '; the first ' + MOST_ROWS + ' are shown' : '');
  at('table').replaceChildren(table(['#place', 'op', 'path', 'line', 'part', 'results', '#bytes', 'kernel'], found.slice(0, MOST_ROWS).map((k) => {
    const node = plan.nodes[k];
    return [node.place, node.op, node.path, node.line, node.phase, node.values.map((value) => value.type).join(', '),
      bytes(node.values.reduce((sum, value) => sum + value.bytes, 0)), node.kernel];
  })));
}
at('search').addEventListener('input', showTable);

// ---- begin ------------------------------------------------------------------------------------

const {report} = record;
document.title = report.graph + ' on ' + report.target;
at('title').textContent = report.graph + ' on ' + report.target;
at('about').textContent = (report.device || report.isa + ', ' + report.threads + (report.threads === 1 ? ' thread' : ' threads')) + ', compiled in ' +
  report.compile_seconds.toFixed(2) + ' s. ' + (record.times.steps > 0 ? 'With measured times.' : 'Plan only, no times.');
choosePlan(0);
document.body.dataset.drawn = values.length;
