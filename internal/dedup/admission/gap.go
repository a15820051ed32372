package admission

import (
	"encoding/json"

	"github.com/effectively-once/once/internal/record"
)

// A GapEvent is the body of the message that informs a stream's destinations about skipped numbers;
// its header "once-event" is "gap".
type GapEvent struct {
	Source string `json:"source"`
	Epoch  uint64 `json:"epoch"`
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
}

// Effect returns the event as a message to destinations.
func (e GapEvent) Effect(to []string) record.Effect {
	body, _ := json.Marshal(e) // marshalling strings and numbers can't fail
	return record.Effect{To: to, ContentType: "application/json", Headers: map[string]string{"once-event": "gap"}, Body: body}
}
