"""The doors: thin translations between a transport and the registry. A door never imports a slice or a store."""
