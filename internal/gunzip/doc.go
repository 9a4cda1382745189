// Package gunzip decodes gzip files that are in memory, several times faster than
// compress/gzip, which reads streams byte by byte.
//
//	plain, ok := gunzip.Decode(ctx, file, 1<<30)
//	if !ok {
//		// compress/gzip reads the file, or says what is wrong with it
//	}
//
// It takes the files that gzip writes: one member with at most a name in its header
// (RFC 1952, RFC 1951). It refuses all others, and all that compress/gzip refuses,
// without a reason; the length and the CRC-32 of what it returns are right.
package gunzip
