package wire

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestAnEventHasTheFormInWhichLambdaHandsItOver(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
	var deliveries []queue.Delivery
	for i, m := range []queue.Message{
		ToQueue(full()),
		ToQueue(record.Message{Stream: "orders", ID: "1", Body: []byte{0xff}, Accepted: at}),
		ToTrigger(record.GroupKey{Stream: "orders", Group: "customer 7"}),
		ToDeadLetter(record.Refused{Message: record.Message{Stream: "orders", ID: "2", Body: []byte("x")}, Reason: record.ReasonUnknown, Detail: "never issued"}),
		{Body: "plain", Sender: "sqs", Group: "g"},
	} {
		m.DedupID = "d" + string(rune('0'+i))
		deliveries = append(deliveries, queue.Delivery{
			Message: m, ID: "id-" + string(rune('0'+i)), Receipt: "receipt", SequenceNumber: "00000000001099511627777", Receives: i + 1, Sent: at,
		})
	}
	deliveries[4].SequenceNumber = "" // of a standard queue
	golden(t, "event.json", Event("arn:aws:sqs:eu-central-1:123456789012:ingress.fifo", deliveries))
}

func TestAnEventFromAWSIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/aws.json")
	if err != nil {
		t.Fatal(err)
	}
	var event events.SQSEvent
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Message record.Message
		Body    string
		Origin  Origin
		Err     string
	}
	var answers []answer
	for _, r := range event.Records {
		m, origin, err := FromSQS(r, Defaults{Stream: "orders", Trusted: []string{"AROAIWPX5BD2BHG722MW4"}})
		a := answer{Message: m, Body: string(m.Body), Origin: origin}
		if err != nil {
			a.Err = err.Error()
		}
		a.Message.Body = nil
		answers = append(answers, a)
	}
	golden(t, "aws.read.json", answers)
}

// The checksums were computed by AWS's own SDKs for these attributes, as published with the packages that reimplement them.
func TestChecksumsAreThoseOfSQS(t *testing.T) {
	text, float := "attribValue 1", "4563442423554324324264524243.32543234"
	one := events.SQSMessageAttribute{StringValue: &text, DataType: "String"}
	two := events.SQSMessageAttribute{StringValue: &float, DataType: "Number.float"}
	three := events.SQSMessageAttribute{BinaryValue: []byte("Hello binary world!"), DataType: "Binary"}
	for want, attributes := range map[string]map[string]events.SQSMessageAttribute{
		"":                                 nil,
		"19e27d4e946b072f3f58da80d94fd778": {"attribName1": one},
		"9fe1b90bbd9965bdf77bac517c7d2495": {"customNumberTypeAttrib": two},
		"31a92b15d92f8db860eda32aceb656c3": {"binaryAttribute": three},
		"c932db14a896c663f83c260297d594ff": {"attribName1": one, "customNumberTypeAttrib": two, "binaryAttribute": three},
	} {
		if got := MD5OfAttributes(attributes); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := MD5OfBody("hello"); got != "5d41402abc4b2a76b9719d911017c592" {
		t.Error(got)
	}
}
