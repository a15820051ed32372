package sqsapi

import "testing"

// The checksums were computed by AWS's own SDKs for these attributes, as published with the
// packages that reimplement them.
func TestChecksumsAreThoseOfSQS(t *testing.T) {
	text, float := "attribValue 1", "4563442423554324324264524243.32543234"
	one := attribute{StringValue: &text, DataType: "String"}
	two := attribute{StringValue: &float, DataType: "Number.float"}
	three := attribute{BinaryValue: []byte("Hello binary world!"), DataType: "Binary"}
	for want, attributes := range map[string]map[string]attribute{
		"":                                 nil,
		"19e27d4e946b072f3f58da80d94fd778": {"attribName1": one},
		"9fe1b90bbd9965bdf77bac517c7d2495": {"customNumberTypeAttrib": two},
		"31a92b15d92f8db860eda32aceb656c3": {"binaryAttribute": three},
		"c932db14a896c663f83c260297d594ff": {"attribName1": one, "customNumberTypeAttrib": two, "binaryAttribute": three},
	} {
		if got := md5OfAttributes(attributes); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := MD5OfBody("hello"); got != "5d41402abc4b2a76b9719d911017c592" {
		t.Error(got)
	}
}
