package batch

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// A Result is the answer to one record.
type Result struct {
	ID       string // of an accepted message
	Replayed bool
	Err      *problem.Problem // why the message was not accepted
}

// accepted and failed are the two forms of a result.
type accepted struct {
	Status   int    `json:"status"`
	ID       string `json:"id"`
	Replayed bool   `json:"replayed"`
}

type failed struct {
	Status  int          `json:"status"`
	Problem problem.Item `json:"problem"`
}

// statusAccepted is the status of an accepted message, that of the answer to a single one.
const statusAccepted = 202

// Write returns the results of records in the format of the batch. Instance is that of the
// problems.
func Write(mediaType string, records []Record, results []Result, instance string) ([]byte, error) {
	out := make([]byte, 0, 96*len(results))
	for i := range results {
		var err error
		if out, err = appendResult(out, mediaType, &results[i], records[i].Line, instance); err != nil {
			return nil, fmt.Errorf("encode result: %w", err)
		}
	}
	return out, nil
}

func appendResult(out []byte, mediaType string, r *Result, line int, instance string) ([]byte, error) {
	var v any = accepted{statusAccepted, r.ID, r.Replayed}
	if r.Err != nil {
		v = failed{r.Err.Type.Status(), r.Err.Item(instance, line)}
	}
	if mediaType == CBORSeq {
		item, err := cbor.Marshal(v)
		return append(out, item...), err
	}
	if r.Err == nil && record.IsPlain(r.ID) {
		out = append(out, `{"status":202,"id":"`...)
		out = append(append(out, r.ID...), `","replayed":`...)
		return append(strconv.AppendBool(out, r.Replayed), '}', '\n'), nil
	}
	text, err := json.Marshal(v)
	return append(append(out, text...), '\n'), err
}
