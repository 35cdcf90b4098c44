// The charts of Health. The columns are the attribute data-series of #traffic, which htmx replaces every 10 seconds.
'use strict';
(() => {
  const charts = [
    {id: 'chart-rates', columns: [1, 2], names: ['Requests', 'Failed'], colors: ['--accent', '--bad']},
    {id: 'chart-durations', columns: [3, 4], names: ['Median', '95th percentile'], colors: ['--accent', '--wait']},
  ];
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const time = seconds => new Date(seconds * 1000).toISOString().slice(11, 19);
  const HEIGHT = 200;
  let shown = null;

  function draw(chart, all) {
    const place = document.getElementById(chart.id);
    const data = [all[0], ...chart.columns.map(number => all[number])];
    if (chart.plot) return chart.plot.setData(data);
    if (all[0].length < 2) return;
    const axis = {stroke: color('--muted'), grid: {stroke: color('--line'), width: 1}, ticks: {stroke: color('--line'), width: 1}};
    place.replaceChildren();
    chart.plot = new uPlot({
      width: place.clientWidth,
      height: HEIGHT,
      padding: [null, 28, null, null],
      axes: [{...axis, space: 72, values: (_, at) => at.map(time)}, {...axis, size: 56}],
      scales: {y: {range: (_, low, high) => [0, Math.max(high * 1.1, 1)]}},
      series: [
        {label: 'UTC', value: (_, at) => at === null ? '–' : time(at)},
        ...chart.names.map((label, number) => ({label, stroke: color(chart.colors[number]), width: 2, points: {show: false}})),
      ],
    }, data, place);
  }

  function update() {
    const series = document.getElementById('traffic')?.dataset.series;
    if (!series || series === shown) return;
    shown = series;
    const all = JSON.parse(series);
    charts.forEach(chart => draw(chart, all));
  }

  function redraw() {
    for (const chart of charts) {
      chart.plot?.destroy();
      chart.plot = null;
    }
    shown = null;
    update();
  }

  dark.addEventListener('change', redraw);
  addEventListener('resize', () => {
    for (const chart of charts) {
      chart.plot?.setSize({width: document.getElementById(chart.id).clientWidth, height: HEIGHT});
    }
  });
  new MutationObserver(update).observe(document.getElementById('main'), {
    subtree: true, childList: true, attributes: true, attributeFilter: ['data-series'],
  });
  update();
})();
