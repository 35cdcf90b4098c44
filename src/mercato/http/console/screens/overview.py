from mercato.http.console.screen import EVERYBODY, Screens

screens = Screens(EVERYBODY)
