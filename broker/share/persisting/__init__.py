"""How this broker asks share coordinators, wherever they are: the persister of its leaders and group coordinator."""
