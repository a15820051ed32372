package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// A caller is whose credentials these are.
type caller struct {
	arn     string
	user    string // the unique id, as SQS names senders: ROLE-ID:SESSION for a role
	account string
}

func (s *Stack) caller(ctx context.Context) (caller, error) {
	out, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return caller{}, fmt.Errorf("ask who is calling: %w", Explain(err))
	}
	return caller{arn: aws.ToString(out.Arn), user: aws.ToString(out.UserId), account: aws.ToString(out.Account)}, nil
}

// principal is the caller as the deployed API authenticates it by IAM: package apigw says so of the same ARN.
func (c caller) principal() string {
	arn := c.arn
	if strings.Contains(arn, ":assumed-role/") && strings.Count(arn, "/") >= 2 {
		arn = arn[:strings.LastIndexByte(arn, '/')] // another session is the same principal
	}
	return "iam:" + arn
}

// among tells whether receivers that trust these senders believe what the caller sends. Emulators name the account as the sender of everything.
func (c caller) among(trusted []string, emulated bool) bool {
	role, _, _ := strings.Cut(c.user, ":")
	return slices.Contains(trusted, c.user) || slices.Contains(trusted, role) || emulated && slices.Contains(trusted, c.account)
}

// emulated reports whether the queues are somebody else's than AWS's.
func (s *Stack) emulated() bool { return aws.ToString(s.sqs.Options().BaseEndpoint) != "" }
