package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// passes is how often the dup case adds each of its keys.
const passes = 10

type result struct {
	wall    time.Duration
	cpu     time.Duration
	peakMiB float64
}

func run(who string, c benchCase, n int) (result, error) {
	count := n
	if c.kind == "dup" {
		count = n / passes
	}
	keys := makeKeys(count)
	q := newQueue(who)
	// The garbage of making the keys is not the queue's to collect.
	runtime.GC()

	var m *meter
	var err error
	switch c.kind {
	case "backlog":
		m, err = backlog(q, c, keys)
	case "distinct":
		m, err = untilDone(q, c, keys, func(_ int, key string) { q.Add(key) })
	case "delay":
		m, err = untilDone(q, c, keys, func(i int, key string) { q.AddAfter(key, delayOf(i)) })
	case "dup":
		m, err = dup(who, q, c, keys)
	default:
		err = fmt.Errorf("case kind %q is not implemented", c.kind)
	}
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

// produce starts the producers, each with its own contiguous part of the keys.
func produce(c benchCase, keys []string, rounds int, add func(i int, key string)) *sync.WaitGroup {
	var wg sync.WaitGroup
	for p := range c.producers {
		lo := p * len(keys) / c.producers
		hi := (p + 1) * len(keys) / c.producers
		wg.Go(func() {
			for range rounds {
				for i := lo; i < hi; i++ {
					add(i, keys[i])
				}
			}
		})
	}
	return &wg
}

func backlog(q queue, c benchCase, keys []string) (*meter, error) {
	m, err := startMeter()
	if err != nil {
		return nil, err
	}
	produce(c, keys, 1, func(_ int, key string) { q.Add(key) }).Wait()
	for range keys {
		key, _ := q.Get()
		q.Done(key)
	}
	return m, m.stop()
}

// untilDone ends when every key has been done once.
func untilDone(q queue, c benchCase, keys []string, add func(i int, key string)) (*meter, error) {
	var done atomic.Int64
	total := int64(len(keys))
	finished := make(chan struct{})
	for range c.workers {
		go func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				q.Done(key)
				if done.Add(1) == total {
					close(finished)
				}
			}
		}()
	}

	m, err := startMeter()
	if err != nil {
		return nil, err
	}
	produce(c, keys, 1, add)
	<-finished
	return m, m.stop()
}

// dup ends when the queue is empty and every worker has returned,
// because how many items come out depends on how many adds were merged.
func dup(who string, q queue, c benchCase, keys []string) (*meter, error) {
	var workers sync.WaitGroup
	var done atomic.Int64
	for range c.workers {
		workers.Go(func() {
			var n int64
			for {
				key, shutdown := q.Get()
				// The priority queue may hand out an item and report its shutdown at once.
				// No key is empty, so the key tells whether there is an item.
				if key != "" {
					q.Done(key)
					n++
				}
				if shutdown {
					done.Add(n)
					return
				}
			}
		})
	}

	m, err := startMeter()
	if err != nil {
		return nil, err
	}
	produce(c, keys, passes, func(_ int, key string) { q.Add(key) }).Wait()
	drain(who, q)
	// Neither queue's drain is enough alone, see drain.
	workers.Wait()
	if err := m.stop(); err != nil {
		return nil, err
	}

	if n := done.Load(); n < int64(len(keys)) || n > int64(passes*len(keys)) {
		return nil, fmt.Errorf("%d items came out for %d adds of %d keys", n, passes*len(keys), len(keys))
	}
	return m, nil
}

// drain shuts the queue down so that workers return once all items are done.
// It needs the producers to have ended.
func drain(who string, q queue) {
	if who == controllerRuntime {
		// Shutting the priority queue down drops what it holds, so it has to be empty first.
		// Len flushes pending adds and counts keys added again while they are processed.
		// It takes the lock held while items are handed over, so at zero each has a worker.
		for q.Len() > 0 {
			time.Sleep(50 * time.Microsecond)
		}
		q.ShutDown()
		return
	}
	// This may return with items queued if none is being processed just then.
	// The workers still get those before they see the shutdown.
	q.ShutDownWithDrain()
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
