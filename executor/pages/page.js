'use strict';
// Used by all pages; their own scripts follow.

const at = (id) => document.getElementById(id);
function make(tag, text, more) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  return Object.assign(element, more || {});
}
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
function bytes(n) {
  if (n < 1024) return n + ' B';
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let i = -1;
  do { n /= 1024; ++i; } while (n >= 1024 && i < units.length - 1);
  return n.toFixed(n < 10 ? 2 : 1) + ' ' + units[i];
}
