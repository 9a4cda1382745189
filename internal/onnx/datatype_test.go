package onnx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each type is a float, an integer or a string, and its number is the one of
// onnx.proto.
func TestDataTypes(t *testing.T) {
	for d, name := range map[DataType]string{
		1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
		9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
	} {
		require.Equal(t, name, d.String())
		kinds := 0
		for _, is := range []bool{d.IsFloat(), d.IsInt(), d == String} {
			if is {
				kinds++
			}
		}
		require.Equal(t, 1, kinds, name)
	}
	for _, d := range []DataType{-1, 0, 14, 17, 99} {
		require.False(t, d.IsFloat() || d.IsInt(), d)
	}
	require.Equal(t, "complex128", DataType(15).String())
	require.Equal(t, "type -1", DataType(-1).String())
}

func TestAttrTypeString(t *testing.T) {
	require.Equal(t, "sparse tensor", AttrSparseTensor.String())
	require.Equal(t, "types", AttrTypeProtos.String())
	require.Equal(t, "attribute type -1", AttrType(-1).String())
	require.Equal(t, "attribute type 15", AttrType(15).String())
}
