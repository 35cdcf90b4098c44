// The buttons `Copy`, which are hidden without this script.
'use strict';
(() => {
  document.documentElement.classList.add('copies');
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
})();
