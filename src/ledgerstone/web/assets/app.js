// What pages need beside htmx: the chart of the overview, and streams that rest with their tab.
// Nothing here makes HTML of data; figures go to the canvas, everything else is text from the server.
(function () {
  "use strict";

  // -- streams ------------------------------------------------------------------------------------
  // A browser opens six connections per host; hidden tabs must not hold them.
  const RESTS_AFTER_MS = 5000;
  let sources = [];
  let resting = null;

  htmx.createEventSource = function (url) {
    const source = new EventSource(url);
    sources = sources.filter((each) => each.readyState !== EventSource.CLOSED);
    sources.push(source);
    return source;
  };

  document.addEventListener("visibilitychange", function () {
    if (document.hidden) {
      resting = setTimeout(function () { sources.forEach((each) => each.close()); }, RESTS_AFTER_MS);
      return;
    }
    clearTimeout(resting);
    // The extension opens a new stream for one that has failed for good.
    const closed = sources.filter((each) => each.readyState === EventSource.CLOSED && each.onerror);
    sources = sources.filter((each) => !closed.includes(each));
    closed.forEach((each) => each.onerror(new Event("error")));
  });

  window.addEventListener("pagehide", function () { sources.forEach((each) => each.close()); });

  // -- the chart of throughput --------------------------------------------------------------------
  const KEPT = 300;
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

  // Marks of the scale: powers of two, as sizes are written.
  const STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

  function size(amount) {
    let unit = 0;
    while (amount >= 1024 && unit < UNITS.length - 1) { amount /= 1024; unit += 1; }
    return (amount < 10 && unit > 0 ? amount.toFixed(1) : amount.toFixed(0)) + " " + UNITS[unit];
  }

  // Times are ISO 8601 in UTC here as everywhere: whole where there is room, else the time of day.
  function moment(at) { return at === null ? "–" : new Date(at * 1000).toISOString(); }
  function timeOfDay(at) { return moment(at).slice(11, 19) + "Z"; }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // At least a minute is shown: few samples are no reason to show years, or parts of a second.
  function padded(data) {
    const times = data[0];
    const end = times.length > 0 ? times[times.length - 1] : Date.now() / 1000;
    if (times.length > 0 && end - times[0] >= 60) { return data; }
    const before = times.length > 0 ? [end - 60] : [end - 60, end];
    return data.map((column, index) => (index === 0 ? before : before.map(() => null)).concat(column));
  }

  function columns(samples) {
    // A gap where no page was open, so that no line is drawn across it.
    const made = [[], [], []];
    samples.forEach(function (each, index) {
      if (index > 0 && each[0] - samples[index - 1][0] > 5000) {
        made[0].push(each[0] / 1000 - 1); made[1].push(null); made[2].push(null);
      }
      made[0].push(each[0] / 1000); made[1].push(each[1]); made[2].push(each[2]);
    });
    return made;
  }

  function drawChart(holder) {
    const samples = JSON.parse(holder.dataset.samples);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const shown = function (_, value) { return value === null ? "–" : size(value) + "/s"; };
    const plot = new uPlot({
      width: holder.clientWidth, height: 160,
      cursor: { y: false },
      padding: [null, 32, null, null],
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
      series: [
        { value: (_, at) => moment(at) },
        { label: "in", stroke: colour("--live"), width: 1.5, value: shown, points: { show: false } },
        { label: "out", stroke: colour("--active"), width: 1.5, dash: [5, 3], value: shown, points: { show: false } },
      ],
      axes: [Object.assign({ space: 80, values: (_, marks) => marks.map(timeOfDay) }, axis), Object.assign({ size: 66, incrs: STEPS, values: (_, marks) => marks.map((each) => size(each)) }, axis)],
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1024) * 1.1] } },
    }, padded(columns(samples)), holder);

    new ResizeObserver(function () {
      plot.setSize({ width: holder.clientWidth, height: 160 });
    }).observe(holder);

    document.body.addEventListener("htmx:sseMessage", function (event) {
      if (event.detail.type !== "samples") { return; }
      JSON.parse(event.detail.data.trim()).forEach(function (each) {
        if (samples.length === 0 || each[0] > samples[samples.length - 1][0]) { samples.push(each); }
      });
      samples.splice(0, samples.length - KEPT);
      plot.setData(padded(columns(samples)));
    });
  }

  document.querySelectorAll(".chart[data-samples]").forEach(drawChart);
})();
