package telemetry_test

import (
	"testing"

	"github.com/effectively-once/once/internal/telemetry"
)

func TestAMetricHasANameAndAUnitInOpenTelemetry(t *testing.T) {
	for metric, want := range map[string][2]string{
		"KeyReuse":                   {"once.key_reuse", ""},
		telemetry.MetricConflict:     {"once.conflict", "{commit}"},
		telemetry.MetricSkipped:      {"once.skipped", "{number}"},
		telemetry.MetricPendingAge:   {"once.pending_age", "s"},
		telemetry.MetricProcessed:    {"once.processed", "{message}"},
		telemetry.MetricDeadLettered: {"once.dead_lettered", "{message}"},
		telemetry.MetricTakeover:     {"once.takeover", "{session}"},
		telemetry.MetricDenied:       {"once.denied", "{request}"},
		telemetry.MetricUnreadLate:   {"once.unread_late", "{log}"},
	} {
		if got := telemetry.OTelName(metric); got != want[0] {
			t.Errorf("%s: name %q, want %q", metric, got, want[0])
		}
		if got := telemetry.OTelUnit(metric); want[1] != "" && got != want[1] {
			t.Errorf("%s: unit %q, want %q", metric, got, want[1])
		}
	}
}
