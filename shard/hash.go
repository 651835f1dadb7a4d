package shard

import "github.com/cespare/xxhash/v2"

// Hash is how keys map to shards. It is kept in the group's config and compared at every join,
// since two members that hash differently would both be right about different shards.
//
// Vectors, for those who write [Group.Of] in another language (testdata/vectors.tsv has more):
//
//	key (Go syntax)             xxh64, seed 0     mod 64  mod 1000      murmur2  mod 64  mod 1000
//	""                          ef46db3751d8e999      25       921    275646681      25       681
//	"a"                         d24ec4f1a98c6e5b      27       955  -1563381124      60       524
//	"abc"                       44bc2cf5ad770999      25       249    479470107      27       107
//	"foobar"                    a2aa05ed9085aaf9      57       345   -790332482      62       166
//	"a-little-bit-long-string"  6161f3dffe814552      18       754   -985981536      32       112
//	"\x00\xff"                  e0d97d9a03131d7d      61       981   -190448095      33       553
type Hash string

// The hashes.
const (
	// XXH64 is xxHash64 with seed 0; the shard is the unsigned 64-bit result mod shards.
	XXH64 Hash = "xxh64"

	// Murmur2 is what Kafka's Java producer does with a key that is not null: the 32-bit MurmurHash2
	// with seed 0x9747b28c, its sign bit cleared, mod shards. With as many shards as the topic has
	// partitions, shard and partition are the same number.
	Murmur2 Hash = "murmur2"
)

// place is Group.Of, apart from it so that Of is inlined and does not copy a Group.
func place(key string, shards int, kafka bool) int {
	if kafka {
		return remainder(uint64(murmur2(key)&0x7fffffff), shards)
	}
	return remainder(xxhash.Sum64String(key), shards)
}

// remainder is sum mod n, or 0 if n is not positive.
func remainder(sum uint64, n int) int {
	// A division costs as much as the hash, and most groups don't need one.
	if n > 0 && n&(n-1) == 0 {
		return int(sum & uint64(n-1))
	}
	if n <= 0 {
		return 0
	}
	return int(sum % uint64(n))
}

// murmur2 is Austin Appleby's MurmurHash2 as Kafka uses it: 32 bits, little-endian words, this seed.
func murmur2(key string) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
	)
	h := seed ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
