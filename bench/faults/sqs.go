package main

import (
	"encoding/json"
	"net/http"
	"path"
	"time"

	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/front/sqsapi"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
)

// outQueue is the first-in-first-out queue that is a destination.
const outQueue = "out.fifo"

type sendBatch struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []struct {
		ID                     string `json:"Id"`
		MessageBody            string
		DelaySeconds           int64
		MessageAttributes      map[string]struct{ StringValue string }
		MessageGroupID         string `json:"MessageGroupId"`
		MessageDeduplicationID string `json:"MessageDeduplicationId"`
	}
}

type sentEntry struct {
	ID               string `json:"Id"`
	MessageID        string `json:"MessageId"`
	MD5OfMessageBody string
}

// serveSQS implements the one action of SQS that functions call. It records sends to the
// destination, and queues all others.
func (t *trial) serveSQS(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Requestid", uuid.NewString())
	var in sendBatch
	if r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessageBatch" || json.NewDecoder(r.Body).Decode(&in) != nil {
		http.Error(w, `{"__type":"com.amazonaws.sqs#UnsupportedOperation"}`, http.StatusBadRequest)
		return
	}
	name := path.Base(in.QueueURL)
	if name == outQueue && t.refuse() {
		http.Error(w, `{"__type":"com.amazonaws.sqs#InternalError"}`, http.StatusInternalServerError)
		return
	}
	out := struct {
		Successful []sentEntry
		Failed     []struct{}
	}{Failed: []struct{}{}}
	for _, e := range in.Entries {
		m := queue.Message{Body: e.MessageBody, Group: e.MessageGroupID, DedupID: e.MessageDeduplicationID, Delay: time.Duration(e.DelaySeconds) * time.Second, Attributes: map[string]string{}}
		for name, a := range e.MessageAttributes {
			m.Attributes[name] = a.StringValue
		}
		id := uuid.NewString()
		if name == outQueue {
			t.sends.add(send{Body: []byte(e.MessageBody), Identity: m.Attributes[wire.AttrID], Dedup: m.DedupID})
		} else {
			id = t.broker.send(name, m).ID
		}
		out.Successful = append(out.Successful, sentEntry{e.ID, id, sqsapi.MD5OfBody(e.MessageBody)})
	}
	_ = json.NewEncoder(w).Encode(out) // a caller that has gone sends again
}
