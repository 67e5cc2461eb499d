"""The doors: thin translations between a wire and the registry. A door never imports a slice or a store."""
