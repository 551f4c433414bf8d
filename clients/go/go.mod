module purgatorio

go 1.24
