package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	stage "windlass.dev/bench/stage-go"
)

// prefix is what the names of the stage's objects begin with, before their index.
const prefix = "object-"

// runs counts objects until every one has run, and then the changes that it was told to expect.
type runs struct {
	mu    sync.Mutex
	count int
	// left is how many objects have not run yet.
	left int
	// seen has the objects that have run, or whose change has.
	seen      []bool
	latencies stage.Latencies
}

func newRuns(objects int) *runs {
	return &runs{left: objects, seen: make([]bool, objects)}
}

// expect makes it count count objects that are stamped after since.
func (r *runs) expect(count int, since int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.seen)
	r.latencies.Expect(count, since)
}

// ran is told that an object of this name and stamp has run. Others than the stage's do not count.
func (r *runs) ran(name, stamp string) {
	digits, ok := strings.CutPrefix(name, prefix)
	index, err := strconv.Atoi(digits)
	if !ok || err != nil || index >= len(r.seen) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	switch {
	case r.seen[index]:
	case r.left > 0:
		r.seen[index] = true
		if r.left--; r.left == 0 {
			fmt.Printf("reconciled %d\n", r.count)
		}
	default:
		r.seen[index] = r.latencies.Changed(stamp)
	}
}
