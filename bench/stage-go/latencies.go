package stage

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Stamp is the label with the time at which a change was sent, in nanoseconds since 1970.
const Stamp = "bench.windlass.dev/sent"

// Latencies are those of the changes that a contestant was told to expect. They have no lock of
// their own.
type Latencies struct {
	// expected is how many changes are still to come that were stamped after since.
	expected int
	since    int64
	took     []time.Duration
}

// Expect counts count changes from now on that are stamped after since.
func (l *Latencies) Expect(count int, since int64) {
	l.expected, l.since, l.took = count, since, make([]time.Duration, 0, count)
}

// Changed is told that an object may have changed that has this stamp, and returns whether it
// counts. The last one that does makes it say so.
func (l *Latencies) Changed(stamp string) bool {
	if l.expected == 0 {
		return false
	}
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || sent <= l.since {
		return false
	}
	l.took = append(l.took, time.Since(time.Unix(0, sent)))
	if l.expected--; l.expected == 0 {
		slices.Sort(l.took)
		fmt.Printf("seen %.1f %.1f\n", percentile(l.took, 50), percentile(l.took, 99))
	}
	return true
}

func percentile(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100].Nanoseconds()) / 1e3
}
