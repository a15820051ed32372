package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

const (
	// stagedPrefix is the prefix of staged objects, as in internal/blob/s3blob.
	stagedPrefix = ".staged/"
	// stagedDays is longer than a message can be in flight, 14 days in a queue and 14 in its
	// dead-letter queue: an object of a committed attempt must not expire before it is published.
	stagedDays = 30
	// bodiesPrefix is the prefix of bodies that are too large for a queue, as in
	// internal/blob/s3blob.
	bodiesPrefix = ".bodies/"
	// bodiesDays is longer than any queue can name a body: 14 days in a first-in-first-out queue
	// and 14 in its dead-letter queue, which count anew, and the same after a redrive by SQS
	// itself.
	bodiesDays = 60
)

// newBucket makes the bucket of claim checks, blobs and bodies: private, encrypted, TLS only.
// Staged objects and bodies expire.
func newBucket(scope constructs.Construct, pipeline *PipelineProps) awss3.Bucket {
	props := &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(), Encryption: awss3.BucketEncryption_S3_MANAGED,
		ObjectOwnership: awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED, RemovalPolicy: removal(pipeline.Unprotected), ServerAccessLogsBucket: pipeline.BucketLogs,
		LifecycleRules: &[]*awss3.LifecycleRule{{
			Id: jsii.String("strays"), Prefix: jsii.String(stagedPrefix), Expiration: awscdk.Duration_Days(jsii.Number(stagedDays)),
		}, {
			Id: jsii.String("bodies"), Prefix: jsii.String(bodiesPrefix), Expiration: awscdk.Duration_Days(jsii.Number(bodiesDays)),
		}, {
			Id: jsii.String("uploads"), AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(1)),
		}},
	}
	if key := pipeline.Keys.Bucket; key != nil {
		props.Encryption, props.EncryptionKey, props.BucketKeyEnabled = awss3.BucketEncryption_KMS, key, jsii.Bool(true)
	}
	b := awss3.NewBucket(scope, jsii.String("Bucket"), props)
	b.AddToResourcePolicy(denyPlaintext("s3:*", b.BucketArn(), b.ArnForObjects(jsii.String("*"))))
	return b
}

// grantObjects allows a function to use objects. Without the permission to list, S3 reports a
// missing object as forbidden.
func grantObjects(bucket awss3.Bucket, grantee awsiam.IGrantable) {
	allow(grantee, bucket.ArnForObjects(jsii.String("*")), "s3:GetObject", "s3:PutObject", "s3:DeleteObject")
	allow(grantee, bucket.BucketArn(), "s3:ListBucket")
}
