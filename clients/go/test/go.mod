module purgatorio/test

go 1.24

require (
	github.com/twmb/franz-go v1.19.5
	purgatorio v0.0.0
)

replace purgatorio => ../

require (
	github.com/klauspost/compress v1.18.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.22 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.11.2 // indirect
	golang.org/x/crypto v0.38.0 // indirect
)
