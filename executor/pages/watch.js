// Shows the news of a training (executor/monitor/points.h). Every text of them is set as text, never
// as HTML.
const MOST_NOTES = 100;
const LEFT = 64, RIGHT = 8, TOP = 8, BOTTOM = 20; // around a curve, in pixels

function duration(seconds) {
  const s = Math.round(seconds);
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + s % 60 + ' s';
  return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
}
function short(x) {
  if (!Number.isFinite(x)) return String(x);
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return x.toExponential(2);
  return String(Number(x.toPrecision(4)));
}

let series = [], notes = [], latest = null, logarithmic = false, source = null;

// ---- news -------------------------------------------------------------------------------------

function take(news) {
  latest = news;
  for (const each of news.series) {
    let one = series[each.at];
    if (!one) one = series[each.at] = curve(each.name, each.stride);
    for (; one.stride < each.stride; one.stride *= 2) {
      one.steps = one.steps.filter((_, i) => i % 2 === 0);
      one.values = one.values.filter((_, i) => i % 2 === 0);
    }
    for (let i = 0; i < each.points.length; i += 2) {
      one.steps.push(each.points[i]);
      one.values.push(Number(each.points[i + 1]));
    }
    one.last = [each.last[0], Number(each.last[1])];
    one.count = each.count;
    draw(one);
  }
  if (news.notes.length > 0) {
    notes = notes.concat(news.notes).slice(-MOST_NOTES);
    at('none').hidden = true;
    at('notes').replaceChildren(...notes.toReversed().map(([seconds, step, text]) =>
      make('li', duration(seconds) + ', step ' + step.toLocaleString('en') + ': ' + text)));
  }
  showTotals();
  if (news.series.length > 0) showTable();
}

function showState(name, about) {
  at('state').textContent = name;
  at('state').className = name.split(' ')[0];
  at('now').textContent = about;
}

function showTotals() {
  const n = latest;
  document.title = n.steps ? Math.floor(100 * n.step / n.steps) + '% ' + n.title : n.title;
  at('title').textContent = n.title;
  showState(n.state, n.state === 'running' ? '' : 'after ' + duration(n.seconds));
  at('progress').hidden = !n.steps;
  if (n.steps) at('progress').value = n.step / n.steps;
  const facts = [['step', n.step.toLocaleString('en') + (n.steps ? ' of ' + n.steps.toLocaleString('en') : '')],
    ['time', duration(n.seconds)]];
  if (n.state === 'running') {
    facts.push(['left', n.left === null ? 'not known' : duration(n.left)],
      ['steps per second', n.rate === null ? 'not known' : short(n.rate)]);
  }
  facts.push(['memory', bytes(n.memory)]);
  at('totals').replaceChildren(...facts.map(([name, fact]) => {
    const box = make('div');
    box.append(make('dt', name), make('dd', fact));
    return box;
  }));
}

function showTable() {
  const element = make('table');
  const line = element.createTHead().insertRow();
  for (const name of ['name', 'last', 'at step', 'lowest', 'highest', 'points']) {
    line.append(make('th', name, {className: name === 'name' ? '' : 'number'}));
  }
  const body = element.createTBody();
  for (const one of series) {
    if (!one) continue;
    const [low, high] = range(finite(one));
    const tr = body.insertRow();
    tr.insertCell().textContent = one.name;
    for (const cell of [short(one.last[1]), one.last[0].toLocaleString('en'), short(low), short(high), one.count.toLocaleString('en')]) {
      Object.assign(tr.insertCell(), {textContent: cell, className: 'number'});
    }
  }
  at('table').replaceChildren(element);
}

// ---- curves -----------------------------------------------------------------------------------

function curve(name, stride) {
  const figure = make('figure'), caption = make('figcaption');
  const canvas = make('canvas'), read = make('span');
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'img');
  caption.append(make('span', name), read);
  figure.append(caption, canvas);
  const one = {name, stride, steps: [], values: [], last: [0, 0], count: 0, canvas, read, chosen: -1};
  const choose = (i) => {
    one.chosen = Math.max(-1, Math.min(i, one.steps.length - 1));
    draw(one);
  };
  canvas.onpointermove = (event) => choose(nearest(one, event.offsetX));
  canvas.onpointerleave = canvas.onblur = () => choose(-1);
  canvas.onkeydown = (event) => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by) return;
    event.preventDefault();
    const from = one.chosen < 0 ? one.steps.length - 1 : one.chosen;
    choose(Math.max(0, from + by * (event.shiftKey ? 20 : 1)));
  };
  at('curves').append(figure);
  return one;
}

// The places that are drawn: those that a (logarithmic) axis has.
const isShown = (value) => Number.isFinite(value) && (!logarithmic || value > 0);
const finite = (one) => one.values.concat([one.last[1]]).filter(Number.isFinite);
function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return values.length > 0 ? [low, high] : [NaN, NaN];
}

function axes(one) {
  const scale = logarithmic ? Math.log10 : (x) => x;
  const steps = one.steps.concat([one.last[0]]), values = one.values.concat([one.last[1]]);
  let [low, high] = range(values.filter(isShown));
  const width = one.canvas.clientWidth - LEFT - RIGHT, height = one.canvas.clientHeight - TOP - BOTTOM;
  const [first, last] = [steps[0], steps.at(-1)];
  const span = scale(high) - scale(low);
  return {
    steps, values, low, high, first, last,
    x: (step) => LEFT + (last === first ? 0.5 : (step - first) / (last - first)) * width,
    y: (value) => TOP + (span > 0 ? 1 - (scale(value) - scale(low)) / span : 0.5) * height,
  };
}

function nearest(one, x) {
  const a = axes(one);
  let best = -1, least = Infinity;
  one.steps.forEach((step, i) => {
    const far = Math.abs(a.x(step) - x);
    if (far < least) [best, least] = [i, far];
  });
  return best;
}

function draw(one) {
  const {canvas} = one, ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const c = canvas.getContext('2d');
  c.scale(ratio, ratio);
  c.font = '11px system-ui, sans-serif';
  const a = axes(one), isChosen = one.chosen >= 0;
  const [step, value] = isChosen ? [one.steps[one.chosen], one.values[one.chosen]] : one.last;
  one.read.textContent = short(value) + ' at step ' + step.toLocaleString('en');
  const ends = Number.isFinite(a.low) ? ', from ' + short(a.low) + ' to ' + short(a.high) : '';
  canvas.setAttribute('aria-label', one.name + ': ' + short(value) + ' at step ' + step + ends);
  canvas.dataset.points = one.steps.length;
  c.fillStyle = color('soft');
  c.textAlign = 'right';
  if (Number.isFinite(a.low)) {
    c.fillText(short(a.high), LEFT - 6, TOP + 9);
    if (a.high > a.low) c.fillText(short(a.low), LEFT - 6, height - BOTTOM);
  }
  c.fillText(a.last.toLocaleString('en'), width - RIGHT, height - 6);
  c.textAlign = 'left';
  c.fillText(a.first.toLocaleString('en'), LEFT, height - 6);
  c.strokeStyle = color('line');
  c.strokeRect(LEFT - .5, TOP - .5, width - LEFT - RIGHT + 1, height - TOP - BOTTOM + 1);
  c.strokeStyle = color('forward');
  c.lineWidth = 1.3;
  c.beginPath();
  let isDown = false;
  a.steps.forEach((each, i) => {
    const shown = isShown(a.values[i]);
    if (shown && isDown) c.lineTo(a.x(each), a.y(a.values[i]));
    else if (shown) c.moveTo(a.x(each), a.y(a.values[i]));
    isDown = shown;
  });
  c.stroke();
  if (isShown(value)) {
    c.fillStyle = color(isChosen ? 'mark' : 'forward');
    c.beginPath();
    c.arc(a.x(step), a.y(value), 3, 0, 7);
    c.fill();
  }
}
const drawAll = () => series.forEach((one) => one && draw(one));

at('log').onclick = () => {
  logarithmic = !logarithmic;
  at('log').setAttribute('aria-pressed', logarithmic);
  drawAll();
};
window.addEventListener('resize', drawAll);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);

// ---- the connection ---------------------------------------------------------------------------

// Browsers open few connections to one host: a page that nobody sees holds none.
function connect() {
  if (source || (latest && latest.state !== 'running') || document.hidden) return;
  source = new EventSource('events');
  let isFirst = true;
  source.onmessage = (message) => {
    if (isFirst) {
      // Each connection is told everything, and may be one to another run.
      isFirst = false;
      series = [];
      notes = [];
      at('curves').replaceChildren();
      at('notes').replaceChildren();
      at('table').replaceChildren();
      at('none').hidden = false;
    }
    take(JSON.parse(message.data));
    if (latest.state !== 'running') disconnect();
  };
  source.onerror = () => {
    isFirst = true;
    if (source.readyState === EventSource.CLOSED) {
      disconnect();
      showState('refused', 'too many pages are open, or the training ends: load this page again');
    } else {
      showState('lost', 'the program does not answer: it was stopped, or cannot be reached');
    }
  };
}
function disconnect() {
  if (source) source.close();
  source = null;
}
document.addEventListener('visibilitychange', () => document.hidden ? disconnect() : connect());
connect();
