package record_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func TestTheTextOfARefusalIsCutAtFiveHundredBytesBetweenTwoCharacters(t *testing.T) {
	whole, half := strings.Repeat("x", 500), strings.Repeat("ü", 250)
	for text, want := range map[string]string{
		whole: whole, half: half, whole + "x": whole[:497] + "…", half + "ü": half[:496] + "…", whole[:499] + "ü": whole[:497] + "…", whole[:498] + "\n": whole[:498] + `\n`,
	} {
		if got := record.RejectText(text); got != want {
			t.Errorf("%d bytes that end in %q: got %d bytes that end in %q", len(text), text[len(text)-4:], len(got), got[len(got)-4:])
		}
	}
}

func TestALogLineHasNoMoreOfAStreamThanItsNameMayHave(t *testing.T) {
	m := record.Message{Stream: strings.Repeat("s", 200_000)}
	for _, attr := range m.LogAttrs(false) {
		if attr.Key == "stream" && len(attr.Value.String()) > record.MaxStreamName {
			t.Errorf("%d bytes", len(attr.Value.String()))
		}
	}
	m.Stream = strings.Repeat("s", record.MaxStreamName)
	if got := m.LogAttrs(false)[0]; !got.Equal(slog.String("stream", m.Stream)) {
		t.Errorf("got %v", got)
	}
}
