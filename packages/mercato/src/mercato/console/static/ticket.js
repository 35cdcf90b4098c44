// Prints the ticket once it is shown, and again by its button, on a page as long as it is: a roll is cut after it.
'use strict';
(() => {
  const mm = Math.ceil(document.querySelector('main').offsetHeight / 96 * 25.4) + 6;
  const [sheet] = document.styleSheets;
  sheet.insertRule(`@page { size: 80mm ${mm}mm; }`, sheet.cssRules.length);
  const button = document.getElementById('print');
  button.hidden = false;
  button.addEventListener('click', () => print());
  addEventListener('load', () => print());
})();
