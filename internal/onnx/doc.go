// Package onnx reads and writes the ONNX file format: the protobuf messages
// of onnx.proto, decoded by hand from the wire. It is a codec and nothing
// else; what the operators mean is decided elsewhere.
//
//	m, err := onnx.Read(file)
//	if err != nil {
//		return err // names the place in the file
//	}
//	for _, n := range m.Graph.Nodes {
//		if a := n.Attr("alpha"); a != nil && a.Type == onnx.AttrFloat {
//			a.F *= 2
//		}
//	}
//	err = m.Write(out)
//
// Decoding accepts every storage form of the format, packed or not: raw_data
// and the typed data fields, float16 and bfloat16 in either. Values are held
// as float64 or int64, which hold every element exactly. Encoding writes one
// form, raw_data in the tensor's own type, and the result decodes to an equal
// Model. Fields this package has no name for are carried along as bytes.
//
// The bytes may come from anywhere. A tensor's shape is compared with the
// number of elements that are there before anything of that size is
// allocated, sub-graphs stay bytes so that nothing recurses, and what is
// wrong is reported as a *FormatError.
package onnx
