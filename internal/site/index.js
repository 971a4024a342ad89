(function () {
'use strict';
document.addEventListener('DOMContentLoaded', function () {
  function id(x) { return document.getElementById(x); }
  function all(sel, from) { return Array.prototype.slice.call((from || document).querySelectorAll(sel)); }
  var src = id('data');
  if (!src) return;
  var data = JSON.parse(src.textContent), nights = data.nights, total = nights.length;
  var words = {P: 'PASS', F: 'FAIL', B: 'BASE-FAILS', U: 'UNSTABLE', I: 'INFRA', S: 'SKIP', N: 'no verdict', '.': 'no answer'};

  // A strip is stored with runs of equal letters counted.
  function unpack(s) {
    return s.replace(/([A-Za-z.])(\d+)/g, function (m, c, n) { return c.repeat(+n); });
  }
  var rows = all('tr[data-s]').map(function (tr) {
    return {tr: tr, svg: tr.querySelector('svg.strip'), group: +tr.dataset.g, cell: tr.classList.contains('cell'), name: (tr.dataset.n || '').toLowerCase(), code: null};
  });
  function code(r) { return r.code || (r.code = unpack(r.tr.dataset.s)); }
  var cells = rows.filter(function (r) { return r.cell; });
  var heads = {};
  rows.forEach(function (r) { if (!r.cell) heads[r.group] = r; });

  var q = id('q'), target = id('target'), verdict = id('verdict'), range = id('range'), steady = id('steady'), shown = id('shown');
  var from = Math.max(0, total - data.shown);

  // The range of nights is the view box of each strip: nothing is drawn anew.
  function zoom() {
    var n = range.value === 'all' ? total : Math.min(total, +range.value);
    from = total - n;
    var box = from + ' 0 ' + n + ' 10';
    rows.forEach(function (r) {
      r.svg.setAttribute('viewBox', box);
      var s = code(r), count = {}, bad = 0, answers = 0, i, c;
      for (i = from; i < total; i++) {
        c = s[i];
        if (c === '.') continue;
        answers++;
        count[c] = (count[c] || 0) + 1;
        if (c !== 'P') bad++;
      }
      var label = Object.keys(count).map(function (c) {
        return count[c] + ' ' + words[c.toUpperCase()] + (c >= 'a' && c <= 'z' ? ' in quarantine' : '');
      }).join(', ') || 'no answers';
      r.svg.setAttribute('aria-label', r.tr.dataset.n + ': last ' + n + ' nights: ' + label);
      if (!r.cell) return;
      r.tr.querySelector('.bad').textContent = bad + ' of ' + answers;
      r.tr.classList.toggle('steady', bad === 0 && r.tr.dataset.v === 'PASS');
    });
    id('quiet').textContent = cells.filter(function (r) { return r.tr.classList.contains('steady'); }).length;
    all('.from').forEach(function (e) { e.textContent = nights[from]; });
  }

  function filter() {
    var text = q.value.trim().toLowerCase().split(/\s+/).filter(Boolean), g = target ? target.value : '', v = verdict.value;
    var asked = text.length > 0 || v !== '', visible = 0, hidden = 0, per = {};
    cells.forEach(function (r) {
      var now = r.tr.dataset.v, ok = g === '' || r.group === +g;
      ok = ok && text.every(function (t) { return r.name.indexOf(t) >= 0; });
      if (v === 'bad') ok = ok && now !== 'PASS';
      else if (v === 'ever') ok = ok && !r.tr.classList.contains('steady');
      else if (v !== '') ok = ok && now === v;
      // Who asks for something sees it, steady or not.
      var quiet = ok && !asked && !steady.checked && r.tr.classList.contains('steady');
      r.tr.hidden = !ok || quiet;
      if (!r.tr.hidden) { visible++; per[r.group] = 1; } else if (quiet) { hidden++; per[r.group] = 1; }
    });
    Object.keys(heads).forEach(function (k) {
      var h = heads[k], none = h.tr.parentNode.rows.length === 1; // it never got as far as a cell
      h.tr.hidden = none ? text.length > 0 || (g !== '' && h.group !== +g) || (v !== '' && v !== 'bad' && v !== 'ever') : !per[k];
    });
    shown.textContent = visible + ' of ' + cells.length + ' cells shown' + (hidden ? '; ' + hidden + ' that passed every night are not' : '');
    document.body.classList.add('filtered');
  }

  id('filter').hidden = false;
  [q, target, verdict, steady].forEach(function (e) { if (e) e.addEventListener('input', filter); });
  range.addEventListener('input', function () { zoom(); filter(); });
  id('filter').addEventListener('submit', function (e) { e.preventDefault(); });
  document.addEventListener('keydown', function (e) {
    if (e.key === '/' && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { e.preventDefault(); q.focus(); }
    if (e.key === 'Escape' && e.target === q && q.value) { q.value = ''; filter(); }
  });
  if (range.value !== String(data.shown)) zoom(); // the browser kept the choice
  filter();

  // Pointing at a strip names the night under it; a click opens its run. The
  // keyboard finds the same behind the cell's name.
  var tip = id('tip'), table = id('grid');
  function at(e) {
    var svg = e.target.closest && e.target.closest('svg.strip');
    if (!svg) return null;
    var tr = svg.closest('tr'), b = svg.getBoundingClientRect(), n = total - from;
    var i = from + Math.min(n - 1, Math.max(0, Math.floor((e.clientX - b.left) / b.width * n)));
    var c = unpack(tr.dataset.s)[i], run = data.groups[+tr.dataset.g].runs[i];
    return {tr: tr, i: i, c: c, run: run, box: b};
  }
  table.addEventListener('pointermove', function (e) {
    var p = at(e);
    if (!p) { tip.hidden = true; return; }
    tip.textContent = nights[p.i] + '  ' + words[p.c.toUpperCase()] + (p.c >= 'a' && p.c <= 'z' ? ' (quarantine)' : '') + (p.run ? '' : ', no page');
    tip.hidden = false;
    var x = Math.min(e.clientX + 12, window.innerWidth - tip.offsetWidth - 8);
    tip.style.setProperty('left', x + window.scrollX + 'px');
    tip.style.setProperty('top', p.box.top + window.scrollY - tip.offsetHeight - 6 + 'px');
    p.tr.querySelector('svg.strip').classList.toggle('open', !!p.run);
  });
  table.addEventListener('pointerleave', function () { tip.hidden = true; });
  table.addEventListener('click', function (e) {
    var p = at(e);
    if (p && p.run) location.href = 'runs/' + encodeURIComponent(p.run) + '.html';
  });

  // Arrow keys move over the names of the cells.
  table.addEventListener('keydown', function (e) {
    var d = {ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9}[e.key];
    if (!d || e.altKey || e.ctrlKey || e.metaKey) return;
    var links = all('tr.cell:not([hidden]) th a', table), i = links.indexOf(document.activeElement);
    if (i < 0) return;
    e.preventDefault();
    links[Math.min(links.length - 1, Math.max(0, i + d))].focus();
  });
});
})();
