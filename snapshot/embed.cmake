# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=file -DOUTPUT=file.c -DNAME=symbol -P embed.cmake
# Writes OUTPUT: the bytes of INPUT as `const unsigned char NAME[]`, aligned as the driver wants it.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
# 8 bytes a line
string(REGEX REPLACE "((0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,))" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "extern const unsigned char ${NAME}[];\n"
  "const unsigned char ${NAME}[] __attribute__((aligned(16))) = {\n${bytes}\n};\n")
