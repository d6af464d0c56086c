//! The cascade: K matrix, recursion, generation loop
