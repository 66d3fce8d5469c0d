// Package stage is what the contestants have in common that are written in Go.
// A contestant does as the stage of its benchmark says, a line at a time, and answers by lines;
// the stage measures it from outside, so that both languages are measured alike:
//
//	→ ready                  the process is up and knows where the server is
//	← start                  begin
//	→ synced N               informers: the handler has seen all objects; the cache holds N
//	→ reconciled N           controllers: every object has run; it took N runs
//	← trim                   give free memory back to the system
//	→ trimmed
//	← expect COUNT SINCE     from now on, count objects that were stamped after SINCE
//	→ expecting
//	→ seen P50 P99           it has seen COUNT of them; latencies in microseconds
//
// The end of its input ends it. The Rust side of this is in bench/stage.
package stage

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
)

// Play says that the contestant is ready, and does what each line of the input says, until there
// are no more.
func Play(start func() error, expect func(count int, since int64)) error {
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var count int
		var since int64
		line := lines.Text()
		switch {
		case line == "start":
			if err := start(); err != nil {
				return err
			}
		case line == "trim":
			debug.FreeOSMemory()
			fmt.Println("trimmed")
		case expectation(line, &count, &since):
			expect(count, since)
			fmt.Println("expecting")
		default:
			return fmt.Errorf("unknown command %q", line)
		}
	}
	return nil
}

func expectation(line string, count *int, since *int64) bool {
	n, _ := fmt.Sscanf(line, "expect %d %d", count, since)
	return n == 2
}
