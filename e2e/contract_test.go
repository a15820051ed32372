package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestContract checks the contract of every system. Without ONCE_API_URL it runs on the embedded
// system, and on the functions under the local Lambda host; with it, on the stack that is deployed
// there. See target_*_test.go.
func TestContract(t *testing.T) {
	for name, start := range targets() {
		t.Run(name, func(t *testing.T) { checkContract(t, start(t)) })
	}
}

func checkContract(t *testing.T, x *target) {
	checks := map[string]func(*testing.T, *sandbox){
		"a duplicate gets the answer of the first":                       aDuplicateGetsTheAnswerOfTheFirst,
		"a waiting caller is told when it is done":                       aWaitingCallerIsToldWhenItIsDone,
		"many at once get one answer":                                    manyAtOnceGetOneAnswer,
		"what is wrong with a request is a problem":                      whatIsWrongWithARequestIsAProblem,
		"the largest bodies have an effect, and larger ones are refused": theLargestBodiesHaveAnEffect,
		"a one-time request is stored, run and forgotten once":           aOneTimeRequestIsStoredRunAndForgottenOnce,
		"a batch has a result for each message":                          aBatchHasAResultForEachMessage,
		"a batch in CBOR is answered in CBOR":                            aBatchInCBORIsAnsweredInCBOR,
		"a batch keeps the order of its groups":                          aBatchKeepsTheOrderOfItsGroups,
		"a batch of numbered messages comes out in order":                aNumberedBatchComesOutInOrder,
		"a log has each message once, in one order, in every format":     aLogHasEachMessageOnce,
		"a log is read from any offset":                                  aLogIsReadFromAnyOffset,
		"messages by SQS have one effect each":                           messagesBySQSHaveOneEffectEach,
		"the front doors share their memory":                             theFrontDoorsShareTheirMemory,
		"a group keeps the order of its first-in-first-out queue":        aGroupKeepsTheOrderOfItsQueue,
		"numbered messages come out in the order of their numbers":       numberedMessagesComeOutInOrder,
		"a message without order or group has one effect":                unorderedMessagesHaveOneEffectEach,
		"a reused key is dead-lettered and holds up nobody":              aReusedKeyIsDeadLettered,
		"an unknown token is dead-lettered and comes back once issued":   anUnknownTokenComesBackOnceIssued,
		"malformed attributes are dead-lettered":                         malformedAttributesAreDeadLettered,
		"numbers without a predecessor come back in order":               numbersWithoutAPredecessorComeBackInOrder,
		"a stale epoch is dead-lettered":                                 aStaleEpochIsDeadLettered,
		"every destination gets every message once, in order of a group": everyDestinationGetsEveryMessageOnce,
	}
	if x.believing {
		checks["a message of a principal comes back as its principal's"] = aMessageOfAPrincipalComesBackAsItsPrincipals
	}
	if x.services != nil {
		maps.Copy(checks, map[string]func(*testing.T, *sandbox){
			"events of a rule have one effect each":                      eventsOfARuleHaveOneEffectEach,
			"notifications of a bucket have one effect for each version": notificationsOfABucketHaveOneEffectForEachVersion,
			"messages of a topic have one effect, raw or not":            messagesOfATopicHaveOneEffectRawOrNot,
			"the largest message of a source has an effect":              theLargestMessageOfASourceHasAnEffect,
			"a body over the limit of its stream is a dead letter":       aBodyOverTheLimitOfItsStreamIsADeadLetter,
			"an envelope of a topic is its own identity":                 anEnvelopeOfATopicIsItsOwnIdentity,
		})
	}
	t.Run("check", func(t *testing.T) {
		for name, check := range checks {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(t, x.sandbox())
			})
		}
	})
	x.judgeAll(t)
}

// judgeAll checks at the end that no message of any check has had two effects, and that no work is
// left.
func (x *target) judgeAll(t *testing.T) {
	t.Helper()
	var left []string
	// If the answer of a receive is lost, its messages are hidden until their visibility timeout,
	// which is longer than anything else here takes.
	ctx, cancel := context.WithTimeout(t.Context(), settleTime)
	defer cancel()
	err := poll(ctx, settleEvery, func() (_ bool, err error) {
		left, err = x.leftovers()
		return len(left) == 0, err
	})
	if err != nil {
		t.Errorf("%v: left over:\n%s", err, strings.Join(left, "\n"))
	}
	posts, problems := x.receiver.seen()
	(&verdict{problems}).report(t)
	v := &verdict{}
	effect := map[[2]string]string{}
	for _, p := range posts {
		m := [2]string{p.stream, p.id}
		if effect[m] != "" && effect[m] != p.webhookID {
			v.add("%s of %s has two effects: %s and %s", p.id, p.stream, effect[m], p.webhookID)
		}
		effect[m] = p.webhookID
	}
	v.report(t)
	t.Logf("%d messages, %d posts", len(effect), len(posts))
}

// tidy removes the blanks at the braces of JSON, because the event source mapping of LocalStack
// parses a JSON body and encodes it again without them.
func tidy(list []sent) []sent {
	for i, m := range list {
		if m.contentType == "application/json" {
			list[i].body = append(append([]byte("{"), bytes.Trim(m.body, "{ }")...), '}')
		}
	}
	return list
}

func everyDestinationGetsEveryMessageOnce(t *testing.T, x *sandbox) {
	const messages, groups = 24, 3
	h := newHTTPSender(t, x.url, "fanned")
	var input []sent
	for i := range messages {
		input = append(input, sent{id: x.name(fmt.Sprint("f", i)), group: x.name(fmt.Sprint("g", i%groups)), contentType: "text/plain", body: fmt.Appendf(nil, "%s%02d", x.prefix, i)})
	}
	concurrently(t.Context(), t, 4, append(input, input...), h.send)
	numbers := map[string]string{} // bodies by identity at the receiver
	for _, p := range x.want(t, "fanned", input...) {
		numbers[fmt.Sprintf("fanned/%s/%d", p.group, p.number)] = string(p.body)
	}
	x.wantForwarded(t, numbers)

	var chained []sent
	await(t, "messages of the next stream", func() (bool, error) {
		chained = nil
		posts, _ := x.receiver.seen()
		for _, p := range posts {
			if p.stream == "chained" && strings.HasPrefix(string(p.body), x.prefix) {
				chained = append(chained, sent{id: p.id, body: p.body})
			}
		}
		return len(chained) >= messages, nil
	})
	bodies := map[string]string{}
	for _, m := range chained {
		if id, ok := bodies[string(m.body)]; ok && id != m.id {
			t.Errorf("%s is both %s and %s of the next stream", m.body, id, m.id)
		}
		bodies[string(m.body)] = m.id
	}
	if len(bodies) != messages {
		t.Errorf("%d of %d messages at the next stream", len(bodies), messages)
	}
}

// wantForwarded checks that the queue has these messages, by identity, once each, and those of a
// group in the order of their numbers.
func (x *sandbox) wantForwarded(t *testing.T, want map[string]string) {
	t.Helper()
	var order []forwarded
	await(t, "messages on the queue", func() (bool, error) {
		all, err := x.forwarded()
		order = nil
		for _, m := range all {
			if strings.HasPrefix(m.body, x.prefix) {
				order = append(order, m)
			}
		}
		return len(order) >= len(want), err
	})
	got, last := map[string]string{}, map[string]int{}
	for _, m := range order {
		if _, ok := got[m.identity]; ok {
			t.Errorf("%s is on the queue twice", m.identity)
		}
		got[m.identity] = m.body
		cut := strings.LastIndexByte(m.identity, '/')
		var n int
		_, err := fmt.Sscan(m.identity[cut+1:], &n)
		must(t, err)
		if group := m.identity[:cut]; n <= last[group] {
			t.Errorf("%s comes after number %d", m.identity, last[group])
		} else {
			last[group] = n
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("messages on the queue (-want +got):\n%s", d)
	}
}
