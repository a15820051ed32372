package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// transferExample is examples/transfer: accounts, of which each is a group. Less money is put in
// than is moved, so some transfers are refused.
func transferExample() *handlerExample {
	return &handlerExample{stream: "transfers", load: transferLoad, judge: judgeTransfers}
}

// transferInTypeScript compiles the handler in TypeScript, as its users do.
func transferInTypeScript(t *testing.T, dir string) []string {
	t.Helper()
	folder, err := filepath.Abs("../examples/transfer/typescript")
	must(t, err)
	if out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "build.sh")).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	must(t, os.Symlink(filepath.Join(folder, "dist"), filepath.Join(dir, "dist")))
	return []string{"ONCE_SECRET=" + handlerSecret}
}

// A transfer is the body of a message, and of an effect to the bank. In this load, Cents is 1000 and
// the number of the operation, or negative if it is no transfer.
type transfer struct {
	From, To string
	Cents    int64
}

// A transferReceipt answers a transfer, and is the body of an effect to the customer.
type transferReceipt struct {
	ID      string
	Balance int64
}

const (
	transferAccounts   = 6
	transferOperations = 240
	noCover            = `{"Reason":"not enough money"}`
)

func transferLoad(random *rand.Rand) []operation {
	load := make([]operation, transferOperations)
	for i := range load {
		account := fmt.Sprint("account-", random.IntN(transferAccounts))
		t := transfer{From: account, To: "elsewhere", Cents: int64(1000 + i)}
		switch random.IntN(10) {
		case 0:
			t.Cents = -t.Cents
		case 1:
			t.From = "another-account"
		case 2, 3, 4:
			t.From, t.To = "", account
		}
		load[i] = operation{key: fmt.Sprint("transfer-", i), group: account, body: encodeTransfer(t)}
	}
	return load
}

func encodeTransfer(t transfer) string {
	body, _ := json.Marshal(t) // a struct of strings and numbers
	return string(body)
}

// judgeTransfers checks that each operation moved its money once: the balances in the replies of an
// account are a chain from 0 to the sum of what was moved, and the bank and the customer got one
// line for each transfer that was made, with the same balance, in one order.
func judgeTransfers(v *verdict, h *handled) {
	told := transferLines(v, h)
	chains := map[string]*transferChain{}
	refused, rejected := 0, 0
	for _, o := range h.load {
		var t transfer
		_ = json.Unmarshal([]byte(o.body), &t) // it was encoded here
		reply, replied := h.replyTo(o)
		lines := told[o.key]
		delete(told, o.key)
		switch want := rejectionOf(o, t); {
		case want != "":
			rejected++
			if replied || h.replies[o.key][0].body != want || len(lines) > 0 {
				v.add("%s was answered %+v and sent %v, want that it is rejected as %s", o.key, h.replies[o.key], lines, want)
			}
		case reply.status == http.StatusConflict && reply.body == noCover && t.To != o.group && len(lines) == 0:
			refused++
		default:
			made := judgeTransfer(v, o, t, reply, lines)
			if chains[o.group] == nil {
				chains[o.group] = &transferChain{}
			}
			chains[o.group].add(made, t, o)
		}
	}
	for key := range told {
		v.add("%s was sent, and is no transfer of the load", key)
	}
	for account, chain := range chains {
		chain.judge(v, account)
	}
	if refused == 0 || rejected == 0 || len(chains) < 2 {
		v.add("%d refusals, %d rejections and %d accounts: want some of each", refused, rejected, len(chains))
	}
}

// rejectionOf returns the text with which an operation has to be rejected, or "".
func rejectionOf(o operation, t transfer) string {
	switch {
	case t.Cents <= 0:
		return "not a transfer"
	case t.To != o.group && t.From != o.group:
		return "not a transfer of this account"
	}
	return ""
}

// judgeTransfer checks the reply and the lines of a transfer that was made, and returns its receipt.
func judgeTransfer(v *verdict, o operation, t transfer, reply handlerReply, lines []transferLine) (made transferReceipt) {
	if reply.status != http.StatusCreated || json.Unmarshal([]byte(reply.body), &made) != nil || made.ID != o.key {
		v.add("%s was answered %+v, want 201 with its receipt", o.key, reply)
	}
	if t.To == o.group {
		if len(lines) > 0 {
			v.add("%s put money in and sent %v, want nothing", o.key, lines)
		}
		return made
	}
	want := []transferLine{{"bank", o.group, 0, o.body}, {"mail", o.group, 0, reply.body}}
	for i := range min(len(lines), len(want)) {
		want[i].number = lines[0].number + uint64(i)
	}
	if !slices.Equal(lines, want) {
		v.add("%s sent %+v, want %+v", o.key, lines, want)
	}
	return made
}

// A transferLine is one effect.
type transferLine struct {
	destination, group string
	number             uint64
	body               string
}

// transferLines returns the effects by the operation that sent them, those to the bank first.
func transferLines(v *verdict, h *handled) map[string][]transferLine {
	told := map[string][]transferLine{}
	for _, destination := range []string{"bank", "mail"} {
		path := h.path("out/" + destination + ".jsonl")
		if h.row.program != "" { // it has them in its data folder
			path = h.path(".once/" + destination + ".jsonl")
		}
		lines, err := readLines(path)
		if err != nil {
			v.add("%v", err)
		}
		for _, l := range lines {
			var body struct {
				ID    string
				Cents int64
			}
			_ = json.Unmarshal(l.Body, &body) // of another form: it is of no operation
			key := body.ID
			if destination == "bank" {
				key = fmt.Sprint("transfer-", body.Cents-1000)
			}
			told[key] = append(told[key], transferLine{destination, l.Group, l.Number, string(l.Body)})
		}
	}
	return told
}

// A transferChain is what happened to one account.
type transferChain struct {
	before, after []int64 // the balances before and after each change
	sum           int64
}

func (c *transferChain) add(made transferReceipt, t transfer, o operation) {
	change := -t.Cents
	if t.To == o.group {
		change = t.Cents
	}
	c.before, c.after = append(c.before, made.Balance-change), append(c.after, made.Balance)
	c.sum += change
}

// judge checks that the balances can be put into an order: each is left by one change and found by
// one other, but for the first and the last. A lost or repeated change would break it.
func (c *transferChain) judge(v *verdict, account string) {
	found, left := append(c.before, c.sum), append(c.after, 0)
	slices.Sort(found)
	slices.Sort(left)
	if !slices.Equal(found, left) || slices.Min(left) < 0 {
		v.add("%s: the changes found the balances %v and left %v; want the same, from 0 on", account, found, left)
	}
}
