(function () {
'use strict';
// The theme first, so that the page does not flash.
var root = document.documentElement, themes = ['system', 'light', 'dark'], theme = 'system';
try { theme = localStorage.getItem('patchcheck-theme') || 'system'; } catch (e) {}
function setTheme(t) {
  theme = themes.indexOf(t) < 0 ? 'system' : t;
  if (theme === 'system') root.removeAttribute('data-theme'); else root.setAttribute('data-theme', theme);
}
setTheme(theme);

document.addEventListener('DOMContentLoaded', function () {
  function all(sel, from) { return Array.prototype.slice.call((from || document).querySelectorAll(sel)); }
  function id(x) { return document.getElementById(x); }
  var said = id('said');
  function say(text) { said.textContent = ''; setTimeout(function () { said.textContent = text; }, 50); }

  var tb = id('theme');
  function label() { tb.textContent = 'Theme: ' + theme; }
  tb.hidden = false; label();
  tb.addEventListener('click', function () {
    setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);
    try { localStorage.setItem('patchcheck-theme', theme); } catch (e) {}
    label();
  });

  // Copy buttons.
  function copyOld(text) {
    var t = document.createElement('textarea');
    t.value = text; t.setAttribute('readonly', ''); t.className = 'vh';
    document.body.appendChild(t); t.select();
    var ok = false;
    try { ok = document.execCommand('copy'); } catch (e) {}
    t.remove();
    return ok;
  }
  all('button.copy').forEach(function (b) {
    b.hidden = false;
    b.addEventListener('click', function () {
      var text = id(b.dataset.copy).textContent;
      function done(ok) {
        b.textContent = ok ? 'Copied' : 'Not copied: select the text';
        say(b.textContent);
        setTimeout(function () { b.textContent = 'Copy'; }, 2000);
      }
      if (navigator.clipboard && window.isSecureContext) {
        navigator.clipboard.writeText(text).then(function () { done(true); }, function () { done(copyOld(text)); b.focus(); });
      } else { done(copyOld(text)); b.focus(); }
    });
  });

  // A link to a cell opens it, and what it lies in.
  function reveal() {
    var name = '';
    try { name = decodeURIComponent(location.hash.slice(1)); } catch (e) {}
    var el = name && id(name);
    if (!el) return;
    for (var p = el; p; p = p.parentElement) {
      if (p.hidden && p.classList.contains('cell')) p.hidden = false;
      if (p.tagName === 'DETAILS') p.open = true;
    }
    all('.led').forEach(function (d) { d.classList.remove('led'); });
    if (el.tagName === 'DETAILS') {
      el.classList.add('led');
      el.scrollIntoView();
      el.querySelector('summary').focus({ preventScroll: true });
    }
  }
  window.addEventListener('hashchange', reveal);
  // Not left to the browser, which follows a link when Enter goes down: with the
  // focus moved by then, the rest of the same key press would close again what
  // the link opened. So Enter counts when it comes up.
  function follow(a) {
    if (a.hash !== location.hash) history.pushState(null, '', a.hash);
    reveal();
  }
  function bare(e) { return !(e.ctrlKey || e.metaKey || e.shiftKey || e.altKey); }
  all('a[href^="#cell-"]').forEach(function (a) {
    a.addEventListener('keydown', function (e) {
      if (e.key !== 'Enter' || !bare(e)) return;
      e.preventDefault();
      if (!e.repeat) a.addEventListener('keyup', function (up) { if (up.key === 'Enter') follow(a); }, { once: true });
    });
    a.addEventListener('click', function (e) {
      if (!bare(e)) return;
      e.preventDefault();
      follow(a);
    });
  });
  reveal();

  var cells = all('details.cell'), findings = all('article.finding');
  var openAll = id('open'), closeAll = id('close');
  if (openAll) {
    openAll.hidden = closeAll.hidden = false;
    openAll.addEventListener('click', function () { cells.forEach(function (c) { if (!c.hidden) c.open = true; }); say('All cells open'); });
    closeAll.addEventListener('click', function () { cells.forEach(function (c) { c.open = false; }); say('All cells closed'); });
  }

  // The filter.
  var form = id('filter'), q = id('q'), kinds = id('kinds'), boxes = {};
  if (cells.length + findings.length > 0) {
    var seen = {};
    findings.concat(cells).forEach(function (el) {
      el.words = el.textContent.toLowerCase();
      var k = el.dataset.kind;
      if (seen[k]) { seen[k]++; return; }
      seen[k] = 1;
    });
    if (Object.keys(seen).length > 1) Object.keys(seen).forEach(function (k) {
      var l = document.createElement('label'), c = document.createElement('input');
      c.type = 'checkbox'; c.checked = true; c.id = 'kind-' + k.toLowerCase();
      c.addEventListener('change', apply);
      boxes[k] = c;
      l.appendChild(c); l.appendChild(document.createTextNode(k + ' (' + seen[k] + ')'));
      kinds.appendChild(l);
    });
    form.hidden = false;
    form.addEventListener('submit', function (e) { e.preventDefault(); });
    q.addEventListener('input', apply);
  }
  function apply() {
    var words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    function fits(el) {
      return (!boxes[el.dataset.kind] || boxes[el.dataset.kind].checked) && words.every(function (w) { return el.words.indexOf(w) >= 0; });
    }
    var nf = 0, nc = 0, off = {};
    findings.forEach(function (f) { f.hidden = !fits(f); if (!f.hidden) nf++; });
    cells.forEach(function (c) { c.hidden = !fits(c); if (c.hidden) off[c.id] = true; else nc++; });
    all('#grid td[data-cell]').forEach(function (td) { td.classList.toggle('off', !!off[td.dataset.cell]); });
    all('#grid tbody tr').forEach(function (tr) {
      var tds = all('td[data-cell]', tr);
      tr.hidden = tds.length > 0 && tds.every(function (td) { return off[td.dataset.cell]; });
    });
    if (id('nofinding')) id('nofinding').hidden = nf > 0 || findings.length === 0;
    if (id('nocell')) id('nocell').hidden = nc > 0;
    var narrowed = words.length > 0 || Object.keys(boxes).some(function (k) { return !boxes[k].checked; });
    id('shown').textContent = narrowed ? nf + ' of ' + findings.length + ' findings, ' + nc + ' of ' + cells.length + ' cells' : '';
    rove();
  }

  // The matrix is one stop of the Tab key; arrows move in it.
  var grid = id('grid'), here = null;
  function links() { return grid ? all('td a', grid).filter(function (a) { return !a.closest('tr').hidden; }) : []; }
  function rove(to) {
    var ls = links();
    if (to) here = to;
    if (ls.indexOf(here) < 0) here = ls[0];
    all('td a', grid || document.createElement('p')).forEach(function (a) { a.tabIndex = a === here ? 0 : -1; });
  }
  if (grid) {
    rove();
    grid.addEventListener('focusin', function (e) { var a = e.target.closest('td a'); if (a) rove(a); });
    grid.addEventListener('keydown', function (e) {
      var a = e.target.closest && e.target.closest('td a');
      if (!a || e.ctrlKey || e.altKey || e.metaKey) return;
      var td = a.closest('td'), tr = td.parentElement, rows = all('tbody tr', grid).filter(function (r) { return !r.hidden; });
      var x = td.cellIndex, y = rows.indexOf(tr), step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key], to = null;
      if (e.key === 'Home' || e.key === 'End') {
        var in_row = all('td a', tr);
        to = e.key === 'Home' ? in_row[0] : in_row[in_row.length - 1];
      } else if (step) {
        for (;;) {
          x += step[0]; y += step[1];
          if (!rows[y] || !rows[y].cells[x]) break;
          to = rows[y].cells[x].querySelector('a');
          if (to) break;
        }
      } else return;
      e.preventDefault();
      if (to) { rove(to); to.focus(); }
    });
  }

  // Only what scrolls is a stop of the Tab key.
  var scrollers = all('.scroll[tabindex], pre[tabindex]');
  function stops(from) {
    scrollers.forEach(function (el) {
      if (from && !from.contains(el)) return;
      if (el.scrollWidth > el.clientWidth || el.scrollHeight > el.clientHeight) el.tabIndex = 0; else el.removeAttribute('tabindex');
    });
  }
  stops();
  window.addEventListener('resize', function () { stops(); });
  document.addEventListener('toggle', function (e) { if (e.target.open) stops(e.target); }, true);

  // Paper has no disclosures: what matters is open there.
  var opened = [];
  window.addEventListener('beforeprint', function () {
    all('article details, details.cell').forEach(function (d) {
      if (!d.open && (!d.classList.contains('cell') || d.dataset.kind !== 'PASS')) { d.open = true; opened.push(d); }
    });
  });
  window.addEventListener('afterprint', function () { opened.forEach(function (d) { d.open = false; }); opened = []; });
});
})();
