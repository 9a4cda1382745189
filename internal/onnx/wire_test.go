package onnx

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/funcgp/funcgp/internal/testref"
)

// msg concatenates fields into a message.
func msg(fields ...[]byte) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, f...)
	}
	return b
}

func intField(num number, v int64) []byte         { return appendInt(nil, num, v) }
func bytesField(num number, v []byte) []byte      { return appendBytes(nil, num, v) }
func stringField(num number, v string) []byte     { return appendBytes(nil, num, v) }
func fixed32Field(num number, v uint32) []byte    { return protowire.AppendFixed32(tag(num, 5), v) }
func fixed64Field(num number, v uint64) []byte    { return protowire.AppendFixed64(tag(num, 1), v) }
func tag(num number, typ protowire.Type) []byte   { return protowire.AppendTag(nil, num, typ) }
func packedField(num number, vs ...[]byte) []byte { return bytesField(num, msg(vs...)) }
func varint(v int64) []byte                       { return protowire.AppendVarint(nil, uint64(v)) }

// Packed, single and mixed records of a repeated field are one list.
func TestRepeatedScalars(t *testing.T) {
	for name, b := range map[string][]byte{
		"single": msg(intField(8, 1), intField(8, -2), intField(8, 300)),
		"packed": packedField(8, varint(1), varint(-2), varint(300)),
		"mixed":  msg(intField(8, 1), intField(3, 77), packedField(8), packedField(8, varint(-2), varint(300))),
	} {
		var got []int64
		n := 0
		err := message{b: b}.each(func(f *field) error {
			if f.num != 8 {
				return nil
			}
			k := testref.Must(f.scalars(protowire.VarintType))(t)
			n += k
			return f.int64s(&got)
		})
		require.NoError(t, err, name)
		require.Equal(t, []int64{1, -2, 300}, got, name)
		require.Equal(t, 3, n, name)
	}
}

// The offset is that of the field that cannot be read, also in a message
// within a message.
func TestWireErrorsNameTheByte(t *testing.T) {
	good := intField(1, 7) // 2 bytes
	for _, c := range []struct {
		name   string
		b      []byte
		offset int64
		want   string
	}{
		{"tag cut short", msg(good, []byte{0x80}), 2, "the bytes end"},
		{"varint cut short", msg(good, []byte{0x08, 0x80}), 2, "the bytes end"},
		{"varint too long", msg(good, []byte{0x08}, bytes10(0xff)), 2, "malformed field"},
		{"fixed32 cut short", msg(good, tag(2, 5), []byte{1, 2}), 2, "the bytes end"},
		{"fixed64 cut short", msg(good, tag(2, 1), []byte{1, 2}), 2, "the bytes end"},
		{"bytes cut short", msg(good, tag(2, 2), varint(1<<40), []byte{1}), 2, "the bytes end"},
		{"negative length", msg(good, tag(2, 2), varint(-1), []byte{1}), 2, "the bytes end"},
		{"field number 0", msg(good, []byte{0x00}), 2, "malformed field"},
		{"group", msg(good, []byte{0x0b, 0x0c}), 2, "wire type 3"},
		{"end of group", msg(good, []byte{0x0c}), 2, "wire type 4"},
		{"reserved type", msg(good, []byte{0x0e}), 2, "wire type 6"},
		{"inside the graph", msg(good, bytesField(7, msg(stringField(2, "g"), []byte{0x80}))), 7, "the bytes end"},
	} {
		_, err := Decode(c.b)
		var e *FormatError
		require.ErrorAs(t, err, &e, c.name)
		require.Contains(t, e.Reason, c.want, c.name)
		require.Equal(t, c.offset, e.Offset, c.name)
	}
}

func bytes10(b byte) []byte { return []byte{b, b, b, b, b, b, b, b, b, b, b} }

// A known field of another wire type is reported, not skipped.
func TestWrongWireType(t *testing.T) {
	node := func(f []byte) []byte { return bytesField(1, msg(stringField(4, "Relu"), f)) }
	attr := func(f []byte) []byte { return node(bytesField(5, f)) }
	for _, graph := range [][]byte{
		intField(1, 1), intField(2, 1), intField(5, 1), intField(11, 1),
		node(intField(1, 1)), node(intField(3, 1)), node(intField(5, 1)),
		attr(stringField(2, "x")), attr(stringField(3, "x")), attr(intField(4, 1)), attr(intField(5, 1)),
		attr(fixed64Field(7, 1)), attr(fixed32Field(8, 1)), attr(intField(9, 1)), attr(stringField(20, "x")),
		bytesField(11, intField(2, 1)), bytesField(11, bytesField(2, intField(1, 1))),
		bytesField(11, bytesField(2, bytesField(1, intField(2, 1)))),
		bytesField(11, bytesField(2, bytesField(1, bytesField(2, intField(1, 1))))),
		bytesField(11, bytesField(2, bytesField(1, bytesField(2, bytesField(1, stringField(1, "x")))))),
	} {
		require.ErrorContains(t, testref.Err(Decode(bytesField(7, graph))), "wire type")
	}
	for _, model := range [][]byte{stringField(1, "x"), intField(2, 1), intField(7, 1), intField(8, 1), intField(14, 1),
		bytesField(8, intField(1, 1)), bytesField(8, stringField(2, "x")), bytesField(14, intField(1, 1))} {
		require.ErrorContains(t, testref.Err(Decode(model)), "wire type")
	}
}
