(function () {
'use strict';
document.addEventListener('DOMContentLoaded', function () {
  function id(x) { return document.getElementById(x); }
  var steps = id('steps'), now = id('now'), done = id('done'), bar = id('bar'), state = id('state'), log = id('events');
  var rows = {}, cells = {}, total = +bar.getAttribute('max'), running = null, ended = false;
  Array.prototype.forEach.call(document.querySelectorAll('tr[data-cell]'), function (tr) { cells[tr.dataset.cell] = tr; });
  function seconds(ns) {
    var s = ns / 1e9;
    if (s < 1) return Math.round(s * 1000) + ' ms';
    if (s < 60) return s.toFixed(1) + ' s';
    return Math.floor(s / 60) + ' min ' + Math.round(s % 60) + ' s';
  }
  function cell(tr, text, cls) { var td = document.createElement('td'); td.textContent = text; if (cls) td.className = cls; tr.appendChild(td); return td; }
  function mark(v) {
    return ({PASS: '\u2713', FAIL: '\u2717', 'BASE-FAILS': '\u25d1', UNSTABLE: '\u2248', INFRA: '!', SKIP: '\u2013'}[v] || '?') + ' ' + v;
  }
  function step(e) {
    var key = e.step + ' ' + e.started, r = rows[key];
    if (!r) {
      var tr = document.createElement('tr'), th = document.createElement('th');
      th.scope = 'row'; th.textContent = e.step; tr.appendChild(th);
      r = rows[key] = {tr: tr, status: cell(tr, ''), time: cell(tr, '', 'num'), detail: cell(tr, '')};
      steps.appendChild(tr);
      now.textContent = e.step; // read out once, when a step begins
    }
    r.status.textContent = e.status || 'running';
    r.tr.className = e.status === 'failed' ? 'fail' : '';
    r.detail.textContent = e.detail || '';
    r.started = Date.parse(e.started);
    if (e.status) { r.time.textContent = seconds(e.elapsed_ns || 0); if (running === r) running = null; }
    else running = r;
  }
  setInterval(function () { if (running && !ended) running.time.textContent = seconds(Math.max(0, Date.now() - running.started) * 1e6); }, 1000);
  function handle(e) {
    if (e.kind === 'begin') { if (e.total) { total = e.total; bar.max = total; } state.textContent = 'Running'; }
    if (e.kind === 'step') step(e);
    if (e.kind === 'cell') {
      bar.value = e.done || 0; bar.max = e.total || total;
      done.textContent = (e.done || 0) + ' of ' + (e.total || total) + ' cells answered';
      var tr = cells[e.cell];
      if (tr) {
        tr.children[1].textContent = e.verdict ? mark(e.verdict) : '\u2026';
        tr.children[1].className = 'verdict ' + (e.verdict || '').toLowerCase();
        tr.children[2].textContent = e.reason || '';
      }
    }
    if (e.kind === 'end') finish('Ended: ' + e.verdict, e.verdict, e.reason);
  }
  function finish(text, verdict, reason) {
    ended = true;
    state.textContent = text;
    state.className = 'verdict ' + (verdict || '').toLowerCase();
    now.textContent = reason || '';
    id('page').hidden = false;
  }
  var es = new EventSource(log.getAttribute('href'));
  es.addEventListener('message', function (m) { try { handle(JSON.parse(m.data)); } catch (x) {} });
  es.addEventListener('open', function () { id('lost').hidden = true; });
  es.addEventListener('reset', function () { steps.textContent = ''; rows = {}; running = null; });
  es.addEventListener('close', function () {
    es.close();
    if (!ended) finish('No process works on it any more', '', '');
  });
  es.addEventListener('error', function () { if (!ended) id('lost').hidden = false; });
});
})();
