package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// passes is how often the dup case adds each of its keys.
const passes = 10

const (
	// rate is how many keys a paced producer adds in a second, a batch each millisecond.
	rate = 20_000
	// pacedWorkers are enough for twice the rate, with runs of pacedRun.
	pacedWorkers = 80
	// pacedRun is how long a run waits in the paced case.
	pacedRun     = time.Millisecond
	stormWorkers = 4
	// stormRun is how long a run computes in the storm.
	stormRun = 20 * time.Microsecond
)

type result struct {
	wall    time.Duration
	cpu     time.Duration
	peakMiB float64
	// latencies are from the add of a key to the start of its run, sorted. Only in the paced case.
	latencies []time.Duration
	// work is the CPU time that the runs computed.
	work time.Duration
}

func run(q queue, c benchCase, n int) (result, error) {
	count := n
	if c.kind == "dup" {
		count = n / passes
	}
	keys := makeKeys(count)
	// The garbage of making the keys is not the queue's to collect.
	runtime.GC()

	add := func(_ int, key string) { q.Add(key) }
	switch c.kind {
	case "paced":
		m, latencies, err := paced(q, keys)
		if err != nil {
			return result{}, err
		}
		res := m.result()
		res.latencies = latencies
		return res, nil
	case "storm":
		m, err := untilDone(q, stormWorkers, stormRun, keys, add)
		if err != nil {
			return result{}, err
		}
		res := m.result()
		res.work = time.Duration(count) * stormRun
		return res, nil
	case "backlog":
		return resultOf(backlog(q, 1, keys))
	case "dup":
		return resultOf(backlog(q, passes, keys))
	case "delay":
		return resultOf(untilDone(q, 1, 0, keys, func(i int, key string) { q.AddAfter(key, delayOf(i)) }))
	case "contention":
		return resultOf(untilDone(q, c.workers, 0, keys, add))
	default:
		return result{}, fmt.Errorf("case kind %q is not implemented", c.kind)
	}
}

func resultOf(m *meter, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	return m.result(), nil
}

func makeKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/object-%d", i%100, i)
	}
	return keys
}

// delayOf spreads the due times over half a second, in an order unlike that of the adds.
// The six seconds before let every queue finish adding first, so that all keys wait at once.
func delayOf(i int) time.Duration {
	return 6*time.Second + time.Duration(i*7919%500_000)*time.Microsecond
}

// finish ends a run as a success.
func finish(q queue, key string) {
	q.Forget(key)
	q.Done(key)
}

// backlog adds all keys as often as there are passes, and then takes each once.
func backlog(q queue, passes int, keys []string) (*meter, error) {
	m, err := startMeter()
	if err != nil {
		return nil, err
	}
	for range passes {
		for _, key := range keys {
			q.Add(key)
		}
	}
	for range keys {
		key, _ := q.Get()
		finish(q, key)
	}
	if n := q.Len(); n != 0 {
		return nil, fmt.Errorf("a key must come out once, but %d are left", n)
	}
	return m, m.stop()
}

// untilDone adds keys while workers take them, and ends when every key has been done once.
func untilDone(q queue, workers int, work time.Duration, keys []string, add func(i int, key string)) (*meter, error) {
	p := newProgress(len(keys))
	for range workers {
		go func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				compute(work)
				finish(q, key)
				p.step()
			}
		}()
	}

	m, err := startMeter()
	if err != nil {
		return nil, err
	}
	go func() {
		for i, key := range keys {
			add(i, key)
		}
	}()
	<-p.allDone
	return m, m.stop()
}

// compute keeps the processor busy.
func compute(work time.Duration) {
	if work == 0 {
		return
	}
	for start := time.Now(); time.Since(start) < work; {
	}
}

// progress counts the runs that have ended.
type progress struct {
	done    atomic.Int64
	total   int64
	allDone chan struct{}
}

func newProgress(total int) *progress {
	return &progress{total: int64(total), allDone: make(chan struct{})}
}

func (p *progress) step() {
	if p.done.Add(1) == p.total {
		close(p.allDone)
	}
}

// paced adds keys at the rate, and measures from each add to the start of the run.
func paced(q queue, keys []string) (*meter, []time.Duration, error) {
	start := time.Now()
	// When a key was added, and then how long it took to start.
	times := make([]atomic.Int64, len(keys))
	p := newProgress(len(keys))
	for range pacedWorkers {
		go func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				t := &times[indexOf(key)]
				t.Store(int64(time.Since(start)) - t.Load())
				time.Sleep(pacedRun)
				finish(q, key)
				p.step()
			}
		}()
	}

	m, err := startMeter()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		ticks := time.NewTicker(time.Millisecond)
		defer ticks.Stop()
		began := time.Since(start)
		added := 0
		for added < len(keys) {
			<-ticks.C
			due := int(int64(rate) * int64(time.Since(start)-began) / int64(time.Second))
			for added < min(len(keys), due) {
				times[added].Store(int64(time.Since(start)))
				q.Add(keys[added])
				added++
			}
		}
	}()
	<-p.allDone
	if err := m.stop(); err != nil {
		return nil, nil, err
	}
	latencies := make([]time.Duration, len(keys))
	for i := range times {
		latencies[i] = time.Duration(times[i].Load())
	}
	slices.Sort(latencies)
	return m, latencies, nil
}

// indexOf is the place of a key among all keys.
func indexOf(key string) int {
	index, err := strconv.Atoi(key[strings.LastIndexByte(key, '-')+1:])
	if err != nil {
		panic(fmt.Sprintf("a key must end with its number: %v", err))
	}
	return index
}

// meter takes wall and CPU time over the measured section.
type meter struct {
	began   time.Time
	before  syscall.Rusage
	wall    time.Duration
	after   syscall.Rusage
	peakMiB float64
}

func startMeter() (*meter, error) {
	m := &meter{}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &m.before); err != nil {
		return nil, fmt.Errorf("getrusage: %w", err)
	}
	m.began = time.Now()
	return m, nil
}

func (m *meter) stop() error {
	m.wall = time.Since(m.began)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &m.after); err != nil {
		return fmt.Errorf("getrusage: %w", err)
	}
	var err error
	m.peakMiB, err = peakMiB()
	return err
}

func (m *meter) result() result {
	return result{
		wall:    m.wall,
		cpu:     cpuTime(&m.after) - cpuTime(&m.before),
		peakMiB: m.peakMiB,
	}
}

// peakMiB is the most memory that was resident in this process.
// The peak of getrusage would include the parent's before the exec.
func peakMiB() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("peak memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024, nil
		}
	}
	return 0, errors.New("peak memory: /proc/self/status has no VmHWM")
}

func cpuTime(r *syscall.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
