//go:build unix

package pebblequeue

import (
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
)

// senders is how many goroutines the benchmarks send from.
const senders = 64

// BenchmarkSend sends 1 KB messages from 64 goroutines, beside raw synced writes of the same bytes.
func BenchmarkSend(b *testing.B) {
	body := strings.Repeat("x", 1000)
	var n atomic.Int64
	b.Run("raw", func(b *testing.B) {
		db := newDB(b)
		parallel(b, func() {
			key := strconv.AppendInt([]byte("raw"), n.Add(1), 10)
			if err := db.Set(key, []byte(body), pebble.Sync); err != nil {
				b.Error(err)
			}
		})
	})
	for _, name := range []string{"q", "q.fifo"} {
		b.Run(name, func(b *testing.B) {
			q := open(b, newDB(b), name, Options{})
			parallel(b, func() {
				m := queue.Message{Body: body, Group: strconv.FormatInt(n.Add(1), 10)}
				if r := q.Send(b.Context(), []queue.Message{m}); r[0].Err != nil {
					b.Error(r[0].Err)
				}
			})
		})
	}
}

// parallel runs the call, and reports processor time and wall-clock time.
func parallel(b *testing.B, call func()) {
	b.SetParallelism(max(1, senders/runtime.GOMAXPROCS(0)))
	before := cpu()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			call()
		}
	})
	b.ReportMetric(float64(cpu()-before)/float64(b.N)/1000, "cpu-µs/op")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReceiveDelete receives and deletes ten messages in a call.
func BenchmarkReceiveDelete(b *testing.B) {
	q := open(b, newDB(b), "q.fifo", Options{})
	var messages []queue.Message
	for i := range b.N {
		messages = append(messages, queue.Message{Body: strings.Repeat("x", 1000), Group: strconv.Itoa(i)})
	}
	mustSend(b, func() []queue.SendResult { return q.SendOrdered(b.Context(), messages) })
	b.ResetTimer()
	for left := b.N; left > 0; {
		var receipts []string
		for _, d := range receive(b, q, 10, time.Minute) {
			receipts = append(receipts, d.Receipt)
		}
		q.Delete(b.Context(), receipts)
		left -= len(receipts)
	}
}

func TestTheIndexTakesLittleMemory(t *testing.T) {
	const n = 200_000
	for _, fifo := range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		x := newIndex(fifo)
		for i := range uint64(n) {
			x.show(x.add(i, i*0x9e3779b97f4a7c15))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := float64(after.HeapAlloc-before.HeapAlloc) / n
		t.Logf("fifo %t: %.0f bytes a message", fifo, each)
		if each > 170 || !fifo && each > 80 {
			t.Errorf("fifo %t: %.0f bytes a message", fifo, each)
		}
		runtime.KeepAlive(x)
	}
}
