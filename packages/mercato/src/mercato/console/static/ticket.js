// Prints the ticket once it is shown, and again by its button.
'use strict';
(() => {
  const button = document.getElementById('print');
  button.hidden = false;
  button.addEventListener('click', () => print());
  addEventListener('load', () => print());
})();
