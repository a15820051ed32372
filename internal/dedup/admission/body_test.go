package admission_test

import (
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

func TestAMessageIsInvalidIfItsBodyIsLargerThanItsStreamTakes(t *testing.T) {
	streams := record.Streams{
		"large":    {Name: "large", MaxBody: record.MaxBody},
		"numbered": {Name: "numbered", MaxBody: record.MaxBody, Admission: record.BySequence},
		"unset":    {Name: "unset"},
	}
	for stream, most := range map[string]int{"large": record.MaxBody, "numbered": record.SmallBody, "unset": record.SmallBody} {
		for size, valid := range map[int]bool{most: true, most + 1: false} {
			a := &admission.Arrival{Message: record.Message{Stream: stream, Source: "s", Sequence: 1, Body: make([]byte, size)}}
			_, err := a.Check(streams)
			if _, invalid := errors.AsType[*record.InvalidError](err); invalid == valid {
				t.Errorf("%s, %d bytes: %v", stream, size, err)
			}
		}
	}
}

func TestAOneTimeRequestHasNoLargeBody(t *testing.T) {
	streams := record.Streams{"large": {Name: "large", MaxBody: record.MaxBody}}
	for size, valid := range map[int]bool{record.SmallBody: true, record.SmallBody + 1: false} {
		a := &admission.Arrival{Message: record.Message{Stream: "large", ID: "1", Route: "POST /", Body: make([]byte, size)}}
		if _, err := a.Check(streams); (err == nil) != valid {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
