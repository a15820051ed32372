package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A sqsPeer is a queue in ElasticMQ.
type sqsPeer struct {
	place
	client *sqs.Client
	queue  string
}

func newSQS(ctx context.Context) (*sqs.Client, error) {
	c, err := config.LoadDefaultConfig(ctx)
	return sqs.NewFromConfig(c), err
}

func (p *sqsPeer) open(ctx context.Context, in place) (err error) {
	p.place = in
	if os.Getenv("AWS_ENDPOINT_URL_SQS") == "" {
		return fmt.Errorf("AWS_ENDPOINT_URL_SQS is not set: localstack/aws.sh run")
	}
	if p.client, err = newSQS(ctx); err != nil {
		return err
	}
	out, err := p.client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &p.name, Attributes: map[string]string{"VisibilityTimeout": strconv.Itoa(int(lease.Seconds()))}})
	if err != nil {
		return err
	}
	p.queue = *out.QueueUrl
	return nil
}

func (p *sqsPeer) send(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		n := min(10, len(ids))
		in := &sqs.SendMessageBatchInput{QueueUrl: &p.queue}
		for i, id := range ids[:n] {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &id})
		}
		out, err := p.client.SendMessageBatch(ctx, in)
		if err != nil || len(out.Failed) > 0 {
			return fmt.Errorf("send to the queue: %w", err)
		}
		ids = ids[n:]
	}
	return nil
}

func (p *sqsPeer) command(int, int, bool) []string     { return []string{nameSQS, p.queue, p.file()} }
func (p *sqsPeer) crash(context.Context) (bool, error) { return false, nil }
func (p *sqsPeer) rows() (*sql.DB, error)              { return openRows(p.file()) }

func (p *sqsPeer) close() {
	if p.queue != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = p.client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &p.queue}) // it is gone with the emulator
	}
}

// consumeSQS receives batches, works, and deletes the messages.
func consumeSQS(ctx context.Context, args []string) error {
	db, err := openRows(args[1])
	if err != nil {
		return err
	}
	client, err := newSQS(ctx)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for ctx.Err() == nil {
		out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &args[0], MaxNumberOfMessages: batch, WaitTimeSeconds: 1})
		if err != nil {
			if errors.Is(err, context.Canceled) {
				break
			}
			return err
		}
		if len(out.Messages) == 0 {
			continue
		}
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &args[0]}
		var ids []string
		for i, m := range out.Messages {
			ids = append(ids, *m.Body)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
		}
		if err := work(context.Background(), db, ids); err != nil {
			return err
		}
		if _, err := client.DeleteMessageBatch(context.WithoutCancel(ctx), in); err != nil {
			return err
		}
	}
	return nil
}
