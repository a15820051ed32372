package plain_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
)

func TestControlCharactersAreVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a b é 漢": "a b é 漢", "\x1b[31m": `\x1b[31m`, "\u202etxt": `\u202etxt`, "a\nb\tc\rd": `a\nb\tc\rd`, "\xff": `\xff`, "\u2028": `\u2028`, "\U000e0001": `\U000e0001`,
	} {
		if got := plain.Safe(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	if got := plain.SafeLines("a\n\tb\r"); got != "a\n\tb\\r" {
		t.Errorf("%q", got)
	}
}

func TestAnArgumentIsQuotedForAShell(t *testing.T) {
	for text, want := range map[string]string{"orders/customer-7": "orders/customer-7", "": "''", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "a b": "'a b'"} {
		if got := plain.Quote(text); got != want {
			t.Errorf("%q is quoted as %s", text, got)
		}
	}
}

func TestAWaitNamesItsReason(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, w := range map[string]admin.Wait{
		"number 7 of source bob, epoch 2, missing since 2026-01-02T03:04:05Z":                                     {For: admin.WaitNumber, Source: "bob", Epoch: 2, Sequence: 7, Since: &at},
		"destination shop to take effect 3, of message o-1; failed 2 times, status 400: field x missing":          {For: admin.WaitDestination, Destination: "shop", Number: 3, ID: "o-1", Tries: 2, Status: 400, Error: "field x missing"},
		"entry 9 of the log, which message m-1 answers, since 2026-01-02T03:04:05Z":                               {For: admin.WaitParent, ID: "m-1", Number: 9, Since: &at},
		"its first try; it is in queue ingress":                                                                   {For: admin.WaitQueue, Queue: "ingress"},
		"its time, 2026-01-02T03:04:05Z":                                                                          {For: admin.WaitTime, ID: "o-1", Next: &at},
		"the next try of message o-1; failed once, last at 2026-01-02T03:04:05Z, next try at " + plain.Stamp(&at): {For: admin.WaitRetry, ID: "o-1", Tries: 1, Last: &at, Next: &at},
	} {
		if got := plain.Wait(&w); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestASessionThatNobodyHoldsIsFreeBehindOrStopped(t *testing.T) {
	for want, s := range map[string]client.SessionInfo{
		"free": {Cursor: 3, Last: 3}, "free, behind": {Cursor: 2, Last: 3}, "stopped at 3": {Cursor: 2, Last: 3, Tries: 5, At: 3},
		"idle": {Holder: "h"}, "behind": {Holder: "h", Last: 1}, "retired": {Retired: true, Returned: true}, "retiring": {Retired: true}, "at the end": {Ended: true},
		"restored": {Restored: true, Holder: "h"},
	} {
		if got := plain.SessionState(&s); got != want {
			t.Errorf("%+v is %s, want %s", s, got, want)
		}
	}
}
