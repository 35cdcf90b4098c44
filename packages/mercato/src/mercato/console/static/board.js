// The board. One request at a time waits at `board/changes`; after a change, and whenever a connection was lost, the orders
// are read anew, all of them: so none is missed or shown twice. Nothing here grows: ids and timers replace the ones before.
'use strict';
(() => {
  const WAIT = 40_000;  // the service answers a waiting request after 25 s
  const PACE = 20_000;  // between requests that the service couldn't hold
  const ANEW = 300_000;  // the orders are read anew though nothing seems to have changed: a customer may have been erased
  const RING = 30_000;  // how often it rings for orders that nobody has accepted
  const TICK = 5_000;
  const HIDDEN = 90_000;  // browsers let timers of a hidden page run once a minute
  const SLOWEST = 10_000;
  const READ = 20_000;  // how long a message stays

  const board = () => document.getElementById('board');
  const lost = document.getElementById('lost');
  const soundButton = document.getElementById('sound');
  const status = document.querySelector('main > [role=status]');
  const script = board().dataset.script;
  const sleep = milliseconds => new Promise(resolve => {
    const timer = setTimeout(resolve, milliseconds);
    wake = () => { clearTimeout(timer); resolve(); };
  });
  let wake = () => {};
  let waiting = null;  // aborts the request that waits
  let known = newOrders();
  let drift = new Date(board().dataset.now) - Date.now();  // between the service's clock and this tablet's
  let contact = Date.now(), drawn = Date.now(), rung = 0, told = Date.now(), ticked = Date.now();
  let isSignedOut = false, isStale = false;
  let audio = null;
  let drawing = Promise.resolve(), acting = Promise.resolve();
  let answered = 0;  // acts: orders that were asked for before an act was answered are older than its answer

  htmx.config.morphIgnore.push('open');

  class Refused extends Error {}

  function newOrders() {
    return new Set([...document.querySelectorAll('#new .card')].map(card => card.id));
  }

  // --- requests ---------------------------------------------------------------------------------------

  async function request(url, options = {}) {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort('timeout'), WAIT);
    if (!options.method) waiting = stop;
    try {
      const answer = await fetch(url, {
        cache: 'no-store', redirect: 'manual', signal: stop.signal, ...options, headers: {'HX-Request': 'true'},
      });
      const text = await answer.text();
      if (answer.status === 401) signedOut();
      const isWhole = answer.ok || text.trimStart().startsWith('<div id="board"');
      if (!isWhole && answer.status < 500 && answer.status !== 429) throw new Refused(answer.status);
      if (!isWhole) throw new Error(answer.status);
      met();
      return text;
    } finally {
      clearTimeout(timer);
      if (waiting === stop) waiting = null;
    }
  }

  const here = path => {
    const url = new URL(path ? `${boardPath}/${path}` : boardPath, location.origin);
    const store = new URLSearchParams(location.search).get('storeId') ?? document.querySelector('#board input[name=storeId]')?.value;
    if (store) url.searchParams.set('storeId', store);
    return url;
  };
  const boardPath = location.pathname.replace(/(\/console\/board).*$/, '$1');

  async function follow() {
    let failures = 0, isDue = false;
    while (!isSignedOut) {
      const begun = Date.now();
      try {
        if (isDue || Date.now() - drawn > ANEW) {
          const before = answered, text = await request(here());
          isDue = before !== answered;
          if (isDue) continue;
          await show(text);
        }
        const url = here('changes');
        url.searchParams.set('after', board().dataset.cursor);
        const asked = Date.now();
        isDue = (await request(url)).trim() === 'changed';
        failures = 0;
        if (!isDue && Date.now() - asked < PACE / 2) await sleep(PACE - (Date.now() - asked));
        // A busy hour: at most two drawings in a second.
        if (isDue && Date.now() - begun < 500) await sleep(500);
      } catch (fault) {
        if (isSignedOut) return;
        // Its own act, or a wake from sleep, has ended the request.
        if (fault === 'again') { isDue = true; continue; }
        isDue = true;
        lose();
        // The page of a refusal says more than this script could.
        if (fault instanceof Refused && failures > 1) return location.reload();
        failures += 1;
        await sleep(Math.min(SLOWEST, 500 * 2 ** failures) * (0.75 + Math.random() / 2));
      }
    }
  }

  function again() {
    waiting?.abort('again');
    wake();
  }

  // --- what is shown ------------------------------------------------------------------------------------

  // One drawing after the other: two at once would lose what the first has to say.
  function show(text) {
    drawing = drawing.catch(() => {}).then(() => draw(text));
    return drawing;
  }

  async function draw(text) {
    await htmx.swap({target: board(), sourceElement: board(), text: text.trim(), swap: 'outerMorph'});
    const {now, said, refused} = board().dataset;
    drift = new Date(now) - Date.now();
    drawn = Date.now();
    if (said || refused) tell(said || refused, !said);
    const before = known, added = [...(known = newOrders())].filter(id => !before.has(id));
    if (added.length) {
      const numbers = added.map(id => document.getElementById(id).querySelector('h3').textContent.trim());
      tell(`New order${numbers.length > 1 ? 's' : ''} ${numbers.join(', ')}`);
      ring();
    }
    count();
    // A newer version of the service has another script.
    if (board().dataset.script !== script && !document.activeElement?.matches('input')) location.reload();
  }

  function tell(text, isProblem = false) {
    const line = document.createElement('p');
    line.className = isProblem ? 'problem' : 'done';
    line.textContent = text;
    status.replaceChildren(line);
    told = Date.now();
  }

  function age(milliseconds) {
    const minutes = Math.max(0, Math.floor(milliseconds / 60_000));
    if (minutes < 100) return `${minutes} min`;
    return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / (24 * 60))} d`;
  }

  function count() {
    const now = Date.now() + drift;
    for (const card of document.querySelectorAll('#board .card')) {
      const time = card.querySelector('.age time'), shown = age(now - new Date(time.dateTime));
      if (time.textContent !== shown) time.textContent = shown;
      const isLate = card.dataset.late !== undefined && new Date(card.dataset.late) <= now;
      card.classList.toggle('late', isLate);
      card.querySelector('.age b').hidden = !isLate;
    }
    document.title = `${isStale ? '! ' : ''}${known.size ? `(${known.size}) ` : ''}Board`;
  }

  // --- the connection -----------------------------------------------------------------------------------

  function met() {
    contact = Date.now();
    if (!isStale) return;
    isStale = false;
    lost.hidden = true;
    board().classList.remove('stale');
    count();
  }

  function lose() {
    if (isStale) return;
    isStale = true;
    const at = new Date(contact).toLocaleTimeString([], {hour12: false});
    lost.textContent = `No connection. This is how it was at ${at}; new orders are missing. It is trying again.`;
    lost.hidden = false;
    board().classList.add('stale');
    count();
  }

  function signedOut() {
    if (isSignedOut) return;
    isSignedOut = true;
    isStale = false;
    lose();
    const link = document.createElement('a');
    link.href = boardPath;
    link.textContent = 'Sign in again';
    lost.replaceChildren('You are signed out: no orders are shown here any more. ', link);
  }

  setInterval(() => {
    const now = Date.now();
    // Slept: timers stood still, and the connection is dead though nobody said so.
    if (now - ticked > (document.hidden ? HIDDEN : 3 * TICK)) { lose(); again(); }
    ticked = now;
    if (now - contact > WAIT + TICK) lose();
    count();
    if (now - told > READ) status.replaceChildren();
    if (document.querySelector('#new .card small') && now - rung > RING) ring();
  }, TICK);

  addEventListener('offline', lose);
  addEventListener('online', again);
  addEventListener('pageshow', event => { if (event.persisted) again(); });
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState !== 'visible') return;
    stayAwake();
    if (Date.now() - contact > WAIT) again();
  });

  // --- what people do -----------------------------------------------------------------------------------

  document.addEventListener('submit', event => {
    const form = event.target, button = event.submitter, card = button?.closest('#board .card');
    if (!card || form.method !== 'post') return;
    event.preventDefault();
    // Typed minutes are only sent by their own button.
    if (!button.name && !form.reportValidity()) return;
    if (card.classList.contains('sent')) return;
    card.classList.add('sent');
    const body = new URLSearchParams(new FormData(form, button));
    if (button.name) body.delete('other');
    const action = button.hasAttribute('formaction') ? button.formAction : form.action;
    // One after the other, in the order of the presses.
    acting = acting.then(() => act(card, action, body));
  });

  async function act(card, action, body) {
    waiting?.abort('again');
    try {
      const text = await request(action, {method: 'POST', body});
      answered += 1;
      await show(text);
    } catch (fault) {
      if (fault instanceof Refused) return location.reload();
      if (!isSignedOut) tell('No connection. Whether it was done is seen here once there is one.', true);
    } finally {
      card.classList.remove('sent');
    }
  }

  // --- sound and light ----------------------------------------------------------------------------------

  function ring() {
    rung = Date.now();
    if (audio?.state !== 'running') return;
    for (const [at, tone] of [[0, 880], [0.22, 1175], [0.44, 880]]) {
      const source = audio.createOscillator(), volume = audio.createGain(), begin = audio.currentTime + at;
      source.frequency.value = tone;
      volume.gain.setValueAtTime(0.0001, begin);
      volume.gain.exponentialRampToValueAtTime(0.4, begin + 0.02);
      volume.gain.exponentialRampToValueAtTime(0.0001, begin + 0.2);
      source.connect(volume).connect(audio.destination);
      source.start(begin);
      source.stop(begin + 0.21);
    }
    document.dispatchEvent(new CustomEvent('board:rang'));
  }

  function showSound() {
    const isOn = audio?.state === 'running';
    soundButton.setAttribute('aria-pressed', isOn);
    document.getElementById('sound-hint').hidden = isOn;
  }

  soundButton.addEventListener('click', async () => {
    // One that is made by a press runs at once.
    const isOn = audio?.state === 'running';
    audio ??= new AudioContext();
    audio.onstatechange ??= showSound;
    await (isOn ? audio.suspend() : audio.resume());
    showSound();
    if (!isOn) ring();
  });

  async function stayAwake() {
    try {
      await navigator.wakeLock?.request('screen');
    } catch {
      // The battery is low, or the tablet doesn't allow it: then its own settings decide.
    }
  }

  soundButton.hidden = false;
  showSound();
  stayAwake();
  count();
  follow();
})();
