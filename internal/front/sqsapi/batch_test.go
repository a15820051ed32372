package sqsapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

// A partial queue takes all messages but those whose body says "unsent".
type partial struct{ queue.Queue }

func (p partial) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	out := make([]queue.SendResult, len(messages))
	for i := range messages {
		if strings.Contains(messages[i].Body, "unsent") {
			out[i].Err = errors.New("disk is full")
			continue
		}
		out[i] = p.Queue.Send(ctx, messages[i:i+1])[0]
	}
	return out
}

// fates returns the id of each entry of an answer: "sent", or the code of its failure and whose
// fault it is.
func fates(t *testing.T, out map[string]any) map[string]string {
	t.Helper()
	got := map[string]string{}
	put := func(id any, fate string) {
		if before, twice := got[id.(string)]; twice {
			t.Errorf("entry %v is listed twice: %s and %s", id, before, fate)
		}
		got[id.(string)] = fate
	}
	for _, one := range out["Successful"].([]any) {
		put(one.(map[string]any)["Id"], "sent")
	}
	for _, one := range out["Failed"].([]any) {
		f := one.(map[string]any)
		put(f["Id"], fmt.Sprintf("%v, sender's fault %v", f["Code"], f["SenderFault"]))
	}
	return got
}

func TestEachBatchEntryIsEitherSuccessfulOrFailedUnderItsOwnID(t *testing.T) {
	const invalid, away = "MissingParameter, sender's fault true", "InternalError, sender's fault false"
	bodies := map[string]string{"invalid": "", "unsent": "unsent", "sent": "x"}
	want := map[string]string{"invalid": invalid, "unsent": away, "sent": "sent"}
	for _, order := range [][]string{
		{"invalid", "unsent", "sent"},
		{"invalid", "sent", "unsent"},
		{"unsent", "invalid", "sent"},
		{"unsent", "sent", "invalid"},
		{"sent", "invalid", "unsent"},
		{"sent", "unsent", "invalid"},
	} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			s := start(t)
			s.handler.config.Ingress = partial{s.standard}
			var entries []string
			for _, id := range order {
				entries = append(entries, `{"Id":"`+id+`","MessageBody":"`+bodies[id]+`"}`)
			}
			out := s.ok("SendMessageBatch", `{"QueueUrl":"orders","Entries":[`+strings.Join(entries, ",")+`]}`)
			if diff := cmp.Diff(want, fates(t, out)); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
		})
	}
}

// batch returns a request of one entry of a size for each of sizes. A third of the size is in a
// binary attribute, a third in a text.
func batch(sizes ...int) string {
	var entries []string
	for i, size := range sizes {
		text, binary := strings.Repeat("t", size/3), []byte(strings.Repeat("b", size/3))
		body := strings.Repeat("x", size-2*(size/3)-len("aString")-len("bBinary"))
		entries = append(entries, fmt.Sprintf(`{"Id":"%d","MessageBody":"%s","MessageAttributes":{
			"a":{"DataType":"String","StringValue":"%s"},"b":{"DataType":"Binary","BinaryValue":"%s"}}}`,
			i, body, text, base64.StdEncoding.EncodeToString(binary)))
	}
	return `{"QueueUrl":"orders","Entries":[` + strings.Join(entries, ",") + `]}`
}

func TestABatchHasAtMostTenEntriesAndOneMebibyteWithAllAttributes(t *testing.T) {
	const quarter = queue.MaxSize / 4
	for _, c := range []struct {
		name  string
		sizes []int
		shape string // of the error; empty if the batch is sent
	}{
		{"ten entries", []int{99, 99, 99, 99, 99, 99, 99, 99, 99, 99}, ""},
		{"eleven entries", []int{99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99}, "TooManyEntriesInBatchRequest"},
		{"the largest size", []int{quarter, quarter, quarter, quarter}, ""},
		{"one byte more", []int{quarter, quarter, quarter, quarter + 1}, "BatchRequestTooLong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t)
			status, out, _ := s.call("SendMessageBatch", batch(c.sizes...))
			if c.shape != "" {
				if status != http.StatusBadRequest || out["__type"] != "com.amazonaws.sqs#"+c.shape {
					t.Errorf("%d %v, want %s", status, out["__type"], c.shape)
				}
				return
			}
			if status != http.StatusOK || len(out["Successful"].([]any)) != len(c.sizes) {
				t.Errorf("%d %v, want %d sent", status, out, len(c.sizes))
			}
		})
	}
}

func TestABatchEntryIDHasUpTo80LettersDigitsHyphensAndUnderscores(t *testing.T) {
	longest := strings.Repeat("x", 80)
	for id, valid := range map[string]bool{
		"aZ": true, "Az09-_": true, longest: true,
		"": false, longest + "x": false, "a.b": false, "a@b": false, "a[b": false, "a`b": false, "a{b": false, "a/b": false, "a:b": false,
	} {
		if got := validEntryID(id); got != valid {
			t.Errorf("%q: valid %v, want %v", id, got, valid)
		}
	}
}
