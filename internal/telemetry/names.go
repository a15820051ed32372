package telemetry

import (
	"strings"
	"unicode"
)

// OTelName returns the name of a metric in OpenTelemetry: once.key_reuse for KeyReuse.
func OTelName(metric string) string {
	var b strings.Builder
	b.WriteString("once.")
	for i, r := range metric {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// OTelUnit returns the unit of a metric in OpenTelemetry: s for ages, and for counts the counted
// thing.
func OTelUnit(metric string) string {
	switch {
	case Unit(metric) == UnitSeconds:
		return "s"
	case metric == MetricHandlerFailed:
		return "{run}"
	case metric == MetricDenied:
		return "{request}"
	case metric == MetricConflict:
		return "{commit}"
	case metric == MetricSkipped:
		return "{number}"
	case metric == MetricSessionStopped || metric == MetricTakeover || metric == MetricEndWaits:
		return "{session}"
	case metric == MetricUnreadLate:
		return "{log}"
	default:
		return "{message}"
	}
}
