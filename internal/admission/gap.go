package admission

import (
	"encoding/json"

	"github.com/effectively-once/once/internal/record"
)

// A GapEvent is the body of the message that tells a stream's destinations of skipped numbers; its header "once-event" is "gap".
type GapEvent struct {
	Source string `json:"source"`
	Epoch  uint64 `json:"epoch"`
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
}

// Effect is the message to destinations.
func (e GapEvent) Effect(to []string) record.Effect {
	body, _ := json.Marshal(e) // texts and numbers can always be written
	return record.Effect{To: to, ContentType: "application/json", Headers: map[string]string{"once-event": "gap"}, Body: body}
}
