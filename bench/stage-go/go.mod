module windlass.dev/bench/stage-go

go 1.26.0
