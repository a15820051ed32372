package room

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/clock"
)

// The room is one group of one stream, in the system of each region.
const (
	Stream = "room"
	Group  = "lobby"
)

// A Line is what one person wrote, as it is in the log of every region.
type Line struct {
	// ID names the line in all regions: the person, the epoch and the number.
	ID string `json:"id"`
	// By, Epoch and Number are those of the person who wrote it.
	By     string `json:"by"`
	Epoch  uint64 `json:"epoch,omitempty"`
	Number uint64 `json:"number"`
	// Region is where it was written, and At the hybrid time of that region then. It is later than
	// that of every line in the region's log.
	Region string       `json:"region"`
	At     clock.Hybrid `json:"at"`
	// Answers are the IDs of the lines that it answers. It is shown below the first one.
	Answers []string `json:"answers,omitempty"`
	Text    string   `json:"text"`
}

// before compares two lines that answer the same one.
func before(a, b *Line) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.By, b.By), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Number, b.Number))
}

// said is the body of a message from a person.
type said struct {
	Text    string   `json:"text"`
	Answers []string `json:"answers,omitempty"`
}

// A Heard line is an entry of a region's log.
type Heard struct {
	Line
	Entry client.Entry
}

// Hear decodes an entry of a region's log.
func Hear(e client.Entry) (Heard, error) {
	h := Heard{Entry: e}
	if err := json.Unmarshal(e.Body, &h.Line); err != nil {
		return Heard{}, fmt.Errorf("entry %d is no line of a room: %w", e.Number, err)
	}
	return h, nil
}

// Say returns the message to a region for a line that answers others, which were read in the log of
// that region. Source, epoch and sequence are still to be set.
//
// In this region the parents are numbers of its log. A number of one log means nothing in another
// one, so the message also depends on the source and the number under which a line came from its
// own region: all regions but that one get it under the same number.
func Say(region, text string, answers ...Heard) client.Message {
	body := said{Text: text}
	m := client.Message{Stream: Stream, Group: Group, ContentType: "application/json"}
	for _, h := range answers {
		body.Answers = append(body.Answers, h.ID)
		m.Parents = append(m.Parents, h.Entry.Number)
		if h.Region == region {
			continue // it is sent to the other regions before its answer, on the same way
		}
		if m.DependsOn == nil {
			m.DependsOn = map[string]uint64{}
		}
		m.DependsOn[h.Entry.Source] = max(m.DependsOn[h.Entry.Source], h.Entry.Sequence)
	}
	m.Body, _ = json.Marshal(body) // text can always be encoded
	return m
}
