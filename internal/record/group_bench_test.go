package record_test

import (
	"fmt"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// BenchmarkReady checks whether a message with 1, 10 or 100 parents can run, in a group with 10 or
// 1,000 sources. The time depends on the parents only.
func BenchmarkReady(b *testing.B) {
	for _, parents := range []uint64{1, 10, 100} {
		for _, sources := range []int{10, 1000} {
			b.Run(fmt.Sprintf("parents=%d/sources=%d", parents, sources), func(b *testing.B) {
				g := record.Group{Sources: map[string]record.Source{}, Log: record.Log{Last: 1000}}
				for i := range sources {
					g.Sources[fmt.Sprint("source ", i)] = record.Source{Next: 5}
				}
				m := record.Message{Source: "source 1", DependsOn: map[string]uint64{"source 2": 3}}
				for n := range parents {
					m.Parents = append(m.Parents, 900+n)
				}
				b.ReportAllocs()
				for b.Loop() {
					if !g.Ready(&m) {
						b.Fatal("not ready")
					}
				}
			})
		}
	}
}
