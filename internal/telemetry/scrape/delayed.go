package scrape

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A delayed reports the messages that wait until they are due.
type delayed struct {
	stats func() (waiting int, next time.Time)
	now   func() time.Time
}

// WatchDelayed adds how many messages wait until they are due, and how late the earliest one is.
// stats is called at each scrape; next is zero if nothing waits.
func (s *Metrics) WatchDelayed(stats func() (waiting int, next time.Time)) {
	s.registry.MustRegister(delayed{stats, s.now})
}

func (delayed) descs() (waiting, late *prometheus.Desc) {
	return prometheus.NewDesc("once_delayed_messages", "Delayed messages that are not on a queue yet.", nil, nil),
		prometheus.NewDesc("once_delayed_late_seconds", "How long ago the earliest waiting message became due; 0 if none is due.", nil, nil)
}

// Describe implements [prometheus.Collector].
func (d delayed) Describe(to chan<- *prometheus.Desc) {
	waiting, late := d.descs()
	to <- waiting
	to <- late
}

// Collect implements [prometheus.Collector].
func (d delayed) Collect(to chan<- prometheus.Metric) {
	n, next := d.stats()
	overdue := time.Duration(0)
	if !next.IsZero() {
		overdue = max(0, d.now().Sub(next))
	}
	waiting, late := d.descs()
	to <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(n))
	to <- prometheus.MustNewConstMetric(late, prometheus.GaugeValue, overdue.Seconds())
}
