// What a browser adds to every page: the buttons `Copy`, and the keys that lead to the search.
'use strict';
(() => {
  document.documentElement.classList.add('script');

  document.addEventListener('click', async event => {
    const button = event.target.closest('button.copy');
    if (!button) return;
    const done = document.querySelector('[role=status]');
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      done.textContent = `Copied ${button.dataset.copy}`;
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    } catch {
      done.textContent = `Select and copy it: ${button.dataset.copy}`;
    }
  });

  document.addEventListener('keydown', event => {
    const isTyping = event.target.closest('input, select, textarea, [contenteditable]');
    const isSlash = event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isK = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!isSlash && !isK) return;
    const field = document.querySelector('.top [type=search]');
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
})();
