(function () {
'use strict';
// The theme first, so that the page does not flash. The key is shared with the
// pages of runs.
var root = document.documentElement, themes = ['system', 'light', 'dark'], theme = 'system';
try { theme = localStorage.getItem('patchcheck-theme') || 'system'; } catch (e) {}
function set(t) {
  theme = themes.indexOf(t) < 0 ? 'system' : t;
  if (theme === 'system') root.removeAttribute('data-theme'); else root.setAttribute('data-theme', theme);
}
set(theme);
document.addEventListener('DOMContentLoaded', function () {
  var b = document.getElementById('theme');
  if (!b) return;
  function label() { b.textContent = 'Theme: ' + theme; }
  b.hidden = false; label();
  b.addEventListener('click', function () {
    set(themes[(themes.indexOf(theme) + 1) % themes.length]);
    try { localStorage.setItem('patchcheck-theme', theme); } catch (e) {}
    label();
  });
});
})();
